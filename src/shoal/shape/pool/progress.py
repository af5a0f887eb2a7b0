"""How a pool is doing: counts, the rate of late, and how long the rest will take."""

from __future__ import annotations

from collections import Counter, deque

from shoal.plan.durations import Durations
from shoal.plan.prediction import remaining
from shoal.shape.pool.crew import Crew
from shoal.shape.pool.ready import ReadyQueue
from shoal.shape.pool.values import Progress, Running

WINDOW_S = 10.0
OVERDUE = 0.1
"""An item that ran longer than expected is expected to go on for this share of what it has run."""
EXACT = 300
"""Up to so many waiting items are summed one by one; beyond, their mean is good enough."""


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


def look(
    now: float, meter: Meter, ready: ReadyQueue, crew: Crew, durations: Durations, left: int | None
) -> Progress:
    """The moment as a value."""
    flights = [member.current for member in crew.members.values() if member.current is not None]
    running = [
        Running(flight.item, flight.worker.node, flight.started)
        for flight in flights
        if flight.started is not None
    ]
    waiting = len(ready) + ready.delayed + sum(len(member.flights) for member in crew.members.values())
    waiting -= len(running)
    workers = len(crew.members)
    return Progress(
        now,
        dict(meter.counts),
        waiting,
        running,
        workers,
        meter.rate(now),
        _remaining(now, ready, running, durations, workers, waiting + (left or 0)),
        durations.mean_s,
        working=sum(member.items > 0 for member in crew.members.values()),
    )


def _remaining(
    now: float, ready: ReadyQueue, running: list[Running], durations: Durations, workers: int, waiting: int
) -> float | None:
    mean = durations.mean_s
    if mean is None:
        return None
    ran = [now - entry.since for entry in running]
    # Short items end first: what still runs shows how much longer the others are than those that ended.
    longer = 1.0 + sum(ran) / (mean * durations.count)
    if waiting == len(ready) <= EXACT:
        expected = [longer * (durations.expect(item) or mean) for item in ready.items()]
    else:
        expected = [longer * mean * waiting]
    left = [
        max(OVERDUE * already, longer * (durations.expect(entry.item) or mean) - already)
        for entry, already in zip(running, ran, strict=True)
    ]
    return remaining(expected, left, workers)
