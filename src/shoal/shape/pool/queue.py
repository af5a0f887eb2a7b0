"""The items that wait, in the order they should go: longest first where durations are known, else as given."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from shoal.model import Item

AVOID_S = 1.0
"""A retry waits so much longer for another worker than the one that failed it; then it takes what is free."""


class ReadyQueue:
    """A heap that is ordered again when expectations have changed enough to matter."""

    def __init__(self, expect: Callable[[Item], float | None]) -> None:
        self._expect = expect
        self._heap: list[tuple[float, int, Item]] = []
        self._delayed: list[tuple[float, int, Item]] = []
        self._avoid: dict[int, tuple[int, float]] = {}
        """The worker that an item should not go to, and until when."""

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def delayed(self) -> int:
        """How many wait for their time."""
        return len(self._delayed)

    def items(self) -> Iterable[Item]:
        return (entry[2] for entry in self._heap)

    def push(self, item: Item) -> None:
        heapq.heappush(self._heap, (-(self._expect(item) or 0.0), item.seq, item))

    def push_later(self, item: Item, at: float, avoid: int) -> None:
        """A retry: not before `at`, and rather not on the worker that failed it."""
        heapq.heappush(self._delayed, (at, item.seq, item))
        self._avoid[item.seq] = (avoid, at + AVOID_S)

    def wake(self, now: float) -> None:
        """Move what has reached its time to the ready ones."""
        while self._delayed and self._delayed[0][0] <= now:
            self.push(heapq.heappop(self._delayed)[2])

    def next_wake(self) -> float | None:
        return self._delayed[0][0] if self._delayed else None

    def pop(self, worker: int, now: float, *, alone: bool) -> Item | None:
        """The next item for a worker; one that failed on it goes to another, unless there is no other."""
        if not self._heap:
            return None
        if not alone and self._avoid and self._avoids(self._heap[0][2], worker, now):
            first = heapq.heappop(self._heap)
            second = self.pop(worker, now, alone=True)
            heapq.heappush(self._heap, first)
            return second
        item = heapq.heappop(self._heap)[2]
        self._avoid.pop(item.seq, None)
        return item

    def _avoids(self, item: Item, worker: int, now: float) -> bool:
        avoided, until = self._avoid.get(item.seq, (None, 0.0))
        return avoided == worker and now < until

    def reorder(self) -> None:
        self._heap = [(-(self._expect(item) or 0.0), item.seq, item) for _, _, item in self._heap]
        heapq.heapify(self._heap)
