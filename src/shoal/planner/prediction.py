"""How long a whole run, or the rest of one, will take: from what items are expected to take and how many go at once."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

from shoal.model import Prediction

SURE = 1.645
"""Standard deviations on each side that hold nine out of ten."""


def makespan(durations: Sequence[float], workers: int) -> float:
    """Seconds that longest-first list scheduling takes: what the pool does when it knows the durations."""
    ends = [0.0] * max(1, min(workers, len(durations) or 1))
    for seconds in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def lower_bound(durations: Sequence[float], workers: int) -> float:
    """No schedule is shorter than this."""
    return max(sum(durations) / max(workers, 1), max(durations, default=0.0))


def predict(durations: Sequence[float], spread_s: float, workers: int, overhead_s: float) -> Prediction:
    """A run's seconds. `spread_s` is the standard deviation of one item around its expectation."""
    return interval(makespan(durations, workers) + overhead_s, spread_s, len(durations), workers)


def interval(middle: float, spread_s: float, items: int, workers: float) -> Prediction:
    """A range around the most likely seconds: what items may differ by, and what a machine may."""
    per_worker = max(1.0, items / max(workers, 1.0))
    wide = SURE * spread_s * math.sqrt(per_worker) + 0.05 * middle + 0.1
    return Prediction(max(0.0, middle - wide), middle, middle + wide)


def remaining(expected: Iterable[float], running: Iterable[float], workers: int) -> float:
    """Seconds until everything is done: what waits and what is left of what runs, spread over the workers."""
    left = list(running)
    total = sum(expected) + sum(left)
    return max(total / max(workers, 1), max(left, default=0.0))
