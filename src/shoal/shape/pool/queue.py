"""The items that wait, in the order they should go, and which workers get how many of them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from shoal.model import Item
from shoal.planner.durations import Durations
from shoal.shape.pool.values import Guide, Source
from shoal.shape.roster import Member, Roster

HORIZON_S = 0.05
"""A worker has about this much work ahead of it, no more: what it holds, another cannot take."""
MOST_ITEMS = 1000
FIRST = 1
IDLE_SHARE = 0.06
"""A worker may be idle for this share of an item's time while the next one is on its way."""

PLENTY = 10_000
"""So many waiting items are enough to choose the longest from."""

SYNC_S = 0.01
"""About how long it takes until a new item is durable, before which no worker gets it."""
AVOID_S = 1.0
"""Seconds that a retry waits for another worker than the one that failed it, before it takes any."""
STUCK_S = 0.2
"""An item that runs longer than this gives up the chunk-mates that wait behind it."""


class ReadyQueue:
    """A heap that is ordered again when expectations have changed enough to matter."""

    def __init__(self, expect: Callable[[Item], float | None]) -> None:
        self._expect = expect
        self._heap: list[tuple[float, int, Item]] = []
        self._delayed: list[tuple[float, int, Item]] = []
        self._avoid: dict[int, tuple[int, float]] = {}
        """The worker that an item should not go to, and until when."""
        self._shortest_s: float | None = None
        """As of the last time it was looked for; None where that has to be done anew."""

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

    def pop_within(self, seconds: float) -> Item | None:
        """The longest of those that are expected to take no longer than this."""
        entry = min((entry for entry in self._heap if -entry[0] <= seconds), default=None)
        if entry is None:
            self._shortest_s = None
            return None
        self._heap.remove(entry)
        heapq.heapify(self._heap)
        self._avoid.pop(entry[2].seq, None)
        return entry[2]

    def shortest_s(self) -> float | None:
        """What the shortest item is expected to take, about; None while nobody knows. Cheap, but for the first time
        after `reorder`."""
        if self._shortest_s is None and self._heap:
            self._shortest_s = -max(self._heap)[0]
        return self._shortest_s or None

    def _avoids(self, item: Item, worker: int, now: float) -> bool:
        avoided, until = self._avoid.get(item.seq, (None, 0.0))
        return avoided == worker and now < until

    def reorder(self) -> None:
        self._heap = [(-(self._expect(item) or 0.0), item.seq, item) for _, _, item in self._heap]
        heapq.heapify(self._heap)
        self._shortest_s = None


class Hands(NamedTuple):
    """The workers that may be given items: how many, and each of them once, those with the fewest items first."""

    total: int
    members: Iterable[Member]


def at_hand(roster: Roster, guide: Guide | None) -> Hands:
    """All that are ready and stay, or as many of each node as the guide says.

    One that still starts gets nothing: what waits for it could be done by others meanwhile.
    """
    if guide is None:
        return Hands(roster.available, roster.by_load())
    ready = [member for member in roster.members.values() if member.ready_at is not None]
    active = [
        member
        for member in _guided(ready, guide)
        if not (member.leaving or member.recalled or member.blocked)
    ]
    return Hands(len(active), sorted(active, key=lambda member: len(member.flights)))


def pick(
    ready: ReadyQueue, durations: Durations, member: Member, hands: int, want: int, enough: int, now: float
) -> list[Item]:
    """The next items for one of so many workers: up to `want` in all, and beyond `enough` only short ones."""
    have = len(member.flights)
    picked: list[Item] = []
    budget = HORIZON_S
    while len(picked) + have < want:
        item = ready.pop(member.number, now, alone=hands == 1)
        if item is None:
            break
        expected = durations.expect(item) or 0.0
        if len(picked) + have >= enough and expected > budget:
            ready.push(item)
            break
        budget -= expected
        picked.append(item)
    return picked


def _guided(ready: list[Member], guide: Guide) -> list[Member]:
    """As many of each node as the guide says. Those that are at work count until they are gone."""
    by_host: dict[str, list[Member]] = {}
    # Those that have worked before come first: they have loaded what others would have to load.
    for member in sorted(ready, key=lambda member: (not member.items and not member.flights, member.number)):
        if member.flights or not member.leaving:
            by_host.setdefault(member.node, []).append(member)
    return [
        member
        for host, here in by_host.items()
        for member in _spread(here)[: max(1, guide.active(host, len(here)))]
    ]


def _spread(members: list[Member]) -> list[Member]:
    """Each GPU's first one, then each one's second: a few of them use all GPUs. Otherwise in the same order."""
    before: Counter[tuple[str, ...]] = Counter()
    turns = []
    for member in members:
        turns.append(before[member.place.devices])
        before[member.place.devices] += 1
    return [members[index] for index in sorted(range(len(members)), key=turns.__getitem__)]


class Supply:
    """`waits` is told of recorded items, `take` of new ones, which have to be recorded first."""

    def __init__(
        self,
        source: Source,
        resumed: Iterator[Item] | None,
        waits: Callable[[Item], None],
        take: Callable[[Sequence[Item]], None],
    ) -> None:
        self._source = source
        self._resumed = resumed
        self._waits = waits
        self._take = take

    def exhausted(self) -> bool:
        """Whether nothing more will ever come."""
        return self._resumed is None and self._source.finished()

    def refill(self, room: int, hungry: int, workers: int) -> None:
        """Get more: as many recorded items as there is room for, then as many new ones as workers will soon take."""
        if self._resumed is not None:
            self._take_resumed(self._resumed, room)
        elif hungry > 0:
            items = self._source.take(hungry, workers)
            if items:
                self._take(items)

    def _take_resumed(self, resumed: Iterator[Item], room: int) -> None:
        for count, item in enumerate(resumed, 1):
            self._waits(item)
            if count >= room:
                return
        self._resumed = None


# How much to hand to a worker at once: so much that it costs little, so little that the tail stays short.


def least_ahead(mean_s: float | None, latency_s: float) -> int:
    """How many items a worker should have whatever they take: the next one, too, where it would be long on its way."""
    return 1 if mean_s is None or latency_s <= IDLE_SHARE * mean_s else 2


def items_ahead(
    mean_s: float | None, waiting: int, workers: int, latency_s: float = 0.0, least: int = 1
) -> int:
    """How many items a worker should have in all, the running one included; `least` where there are enough for all.

    One while nothing is known; then what fits the horizon; at the end an even share of what is left. `latency_s` is
    how long a worker that has nothing waits for what it is given.
    """
    share = waiting / (2 * max(workers, 1))
    if mean_s is None:
        return max(FIRST, least if waiting >= workers else 1)
    by_time = HORIZON_S / max(mean_s, HORIZON_S / MOST_ITEMS)
    by_time = max(by_time, least_ahead(mean_s, latency_s), least)
    fair = max(int(share) + 1, least if waiting >= workers else 1)
    return max(1, min(MOST_ITEMS, int(by_time), fair))


def in_reserve(mean_s: float | None, within_s: float) -> int:
    """How many items more a worker will take `within_s`: they should be durable before it asks for them.

    None where items are so long that it may wait for a sync: what is chosen later is chosen knowing more.
    """
    if mean_s is None or IDLE_SHARE * mean_s >= SYNC_S:
        return 0
    return min(MOST_ITEMS, 1 + int(within_s / max(mean_s, HORIZON_S / MOST_ITEMS)))
