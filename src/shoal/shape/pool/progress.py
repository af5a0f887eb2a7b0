"""How a pool is doing: counts, the rate of late, and how long the rest will take."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from shoal.planner.durations import Durations, remaining
from shoal.shape.base import Policy, Progress, Running
from shoal.shape.pool.crew import Crew

WINDOW_S = 10.0
OVERDUE = 0.1
"""An item that ran longer than expected is expected to go on for this share of what it has run."""
EXACT = 300
"""Waiting items whose durations are summed one by one; beyond, their mean is used."""


class Meter:
    """Counts ends, and knows how many there were lately."""

    def __init__(self, began: float) -> None:
        self.counts: Counter[str] = Counter()
        self._marks: deque[tuple[float, int]] = deque([(began, 0)])

    def ended(self, state: str) -> None:
        self.counts[state] += 1

    def rate(self, now: float) -> float:
        total = sum(self.counts.values())
        self._marks.append((now, total))
        while len(self._marks) > 2 and self._marks[0][0] < now - WINDOW_S:
            self._marks.popleft()
        since, before = self._marks[0]
        return (total - before) / (now - since) if now > since else 0.0


def _useful(policy: Policy, items: int) -> int:
    """How many workers so many items could use, were there room for all that the rules allow."""
    allowed = items if policy.ceiling is None else sum(policy.ceiling.values())
    return min(items, allowed) if policy.concurrent is None else min(items, allowed, policy.concurrent)


def look(now: float, meter: Meter, crews: Sequence[Crew], durations: Durations, left: int) -> Progress:
    """The moment as a value; `left` are items that are not known yet."""
    running: list[Running] = []
    waiting = workers = working = useful = 0
    for crew in crews:
        items = len(crew.ready) + crew.ready.delayed + crew.roster.aloft
        waiting += items
        useful += _useful(crew.lane.policy, items + left)
        workers += len(crew.roster.members)
        for member in crew.roster.members.values():
            working += member.items > 0
            flight = member.current
            if flight is not None and flight.started is not None:
                running.append(Running(flight.item, member.node, flight.started))
    waiting -= len(running)
    return Progress(
        now,
        dict(meter.counts),
        waiting,
        running,
        workers,
        meter.rate(now),
        _remaining(now, crews, running, durations, workers, waiting + left),
        durations.mean_s,
        working=working,
        useful=useful,
    )


def _remaining(
    now: float,
    crews: Sequence[Crew],
    running: list[Running],
    durations: Durations,
    workers: int,
    waiting: int,
) -> float | None:
    mean = durations.mean_s
    if mean is None:
        return None
    ran = [now - entry.since for entry in running]
    # Short items end first: what still runs shows how much longer the others are than those that ended.
    longer = 1.0 + sum(ran) / (mean * durations.count)
    if waiting == sum(len(crew.ready) for crew in crews) <= EXACT:
        known = (item for crew in crews for item in crew.ready.items())
        expected = [longer * (durations.expect(item) or mean) for item in known]
    else:
        expected = [longer * mean * waiting]
    left = [
        max(OVERDUE * already, longer * (durations.expect(entry.item) or mean) - already)
        for entry, already in zip(running, ran, strict=True)
    ]
    return remaining(expected, left, workers)
