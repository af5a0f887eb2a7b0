"""The inputs of an item, read and prepared in order: by the thread that asks for them, or ahead of it by others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Any, NamedTuple

from shoal.engine.workers.stopwatch import Stopwatch, now
from shoal.errors import FileError
from shoal.work.protocols import Opened, Prepare, Unreadable

GROUP = 4
"""Inputs that a thread gets at once: handing them out one by one would cost as much as a small one."""
LONGEST_REASON = 500


class Taken(NamedTuple):
    """One input: ready for the model, or why it is not."""

    position: int
    value: Any = None
    error: str | None = None
    size_bytes: int = 0


class Intake:
    """Gives the inputs of one item, each once. For one thread; those that prepare are its own."""

    def __init__(self, opened: Opened, prepare: Prepare, watch: Stopwatch) -> None:
        self.opened = opened
        self.read_bytes = 0
        self.waited_s = 0.0
        """How long the asking thread waited for others."""
        self.is_reading = False
        """Whether the storage is what is waited for, where one thread reads and prepares."""
        self._prepare = prepare
        self._watch = watch
        self._positions = iter(range(len(opened)))
        self._left = len(opened)
        self._coming: deque[Future[list[Taken]]] = deque()
        self._outstanding = 0
        self._ready: deque[Taken] = deque()

    def __len__(self) -> int:
        """How many have not been given yet."""
        return self._left

    @property
    def all_asked_for(self) -> bool:
        """Whether other threads have been given all that is left."""
        return self._outstanding >= self._left

    @property
    def is_busy(self) -> bool:
        """Whether other threads are still at work for it."""
        return bool(self._coming) and not self._coming[-1].done()

    def reach_ahead(self, executor: Executor, depth: int) -> None:
        """Have so many of the next inputs prepared by other threads."""
        while self._outstanding < depth:
            group = self._next(GROUP)
            if not group:
                return
            self._outstanding += len(group)
            self._coming.append(executor.submit(self._make, group))

    def take(self, count: int) -> list[Taken]:
        """The next inputs, as many as there are. Blocks."""
        taken: list[Taken] = []
        while len(taken) < count:
            if self._ready:
                taken.append(self._ready.popleft())
            elif self._coming:
                began = now()
                self._ready.extend(self._coming.popleft().result())
                self.waited_s += now() - began
            else:
                group = self._next(count - len(taken))
                if not group:
                    break
                self._outstanding += len(group)
                self._ready.extend(self._make(group))
        self._left -= len(taken)
        self._outstanding -= len(taken)
        self.read_bytes += sum(entry.size_bytes for entry in taken)
        return taken

    def skip(self) -> None:
        """Leave out the next input, unread. Only where none is prepared ahead."""
        self._left -= len(self._next(1))

    def give_up(self) -> None:
        """Nobody wants the rest."""
        for future in self._coming:
            future.cancel()

    def _next(self, count: int) -> list[int]:
        return list(islice(self._positions, count))

    def _make(self, positions: Sequence[int]) -> list[Taken]:
        return list(self._each(positions))

    def _each(self, positions: Sequence[int]) -> Iterator[Taken]:
        reading = decoding = 0.0
        for position in positions:
            began = now()
            middle = began
            try:
                self.is_reading = True
                raw = self.opened.read(position)
                self.is_reading = False
                middle = now()
                size_bytes = len(raw) if isinstance(raw, bytes | str) else 0
                yield Taken(position, self._prepare.one(raw), size_bytes=size_bytes)
            except Unreadable as error:
                yield Taken(position, error=str(error)[:LONGEST_REASON])
            except MemoryError:
                yield Taken(position, error="too large for the memory there is")
            except FileError:
                raise  # Nobody can be reached: not the fault of this input.
            except Exception as error:  # noqa: BLE001 - whatever a library makes of it, it is one input
                yield Taken(position, error=f"{type(error).__name__}: {error}"[:LONGEST_REASON])
            reading += middle - began
            decoding += now() - middle
        self._watch.add("reading", reading)
        self._watch.add("decoding", decoding)
        self._watch.count(len(positions))
