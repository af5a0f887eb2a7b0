"""Virtual time: a heap of what will happen. It never sleeps and never reads a real clock."""

from __future__ import annotations

from collections.abc import Callable, Sized
from heapq import heappop, heappush
from math import inf
from typing import Any

from shoal.errors import EngineError

Entry = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Clock:
    """Things due at the same time happen in the order in which they were put on the heap."""

    __slots__ = ("_heap", "_serial", "limit_s", "now")

    def __init__(self, now: float = 0.0, limit_s: float = inf) -> None:
        self.now = now
        self.limit_s = now + limit_s
        self._heap: list[Entry] = []
        self._serial = 0

    def at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        self._serial += 1
        heappush(self._heap, (when, self._serial, action, arguments))

    def advance(self, deadline: float, inbox: Sized) -> None:
        """Go on until something is in the inbox, with all else of that instant, or to the deadline."""
        heap = self._heap
        while heap and not inbox and heap[0][0] <= deadline:
            self._step()
        while inbox and heap and heap[0][0] <= self.now:
            self._step()
        if not inbox:
            self._idle_until(deadline)

    def drain(self) -> None:
        """Let everything happen that is bound to happen."""
        while self._heap:
            self._step()

    def _step(self) -> None:
        when, _, action, arguments = heappop(self._heap)
        if when > self.limit_s:
            self._give_up()
        if when > self.now:
            self.now = when
        action(*arguments)

    def _idle_until(self, deadline: float) -> None:
        if deadline == inf:
            raise EngineError(
                "The simulation waits without a timeout, and nothing will ever happen.",
                hint="The driver lost track of a worker or an item: replay this seed with record=True.",
            )
        if deadline > self.limit_s:
            self._give_up()
        self.now = max(self.now, deadline)

    def _give_up(self) -> None:
        raise EngineError(
            f"The simulation went past its limit of {self.limit_s:g} virtual seconds.",
            hint="Either a driver makes no progress, or limit_s is too low for this schedule.",
        )
