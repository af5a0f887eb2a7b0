"""How long items and whole runs will take, learned from what ended."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.model import Item, Prediction
from shoal.model.item import HIDDEN

SMOOTHING = 2.0
"""How many imagined observations of the overall mean a parameter value starts with."""
SHORT_S = 0.001
"""Items shorter than this are too short for their order to matter, and too many to think about each."""
MOST_VALUES = 2000
"""Distinct values of one column beyond which it is no longer a category worth remembering."""
SURE = 1.645
"""Standard deviations on each side that hold nine out of ten."""


class _Mean:
    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value


class Durations:
    """Learns on the logarithm of seconds, where effects multiply and one long item does not drown the rest."""

    def __init__(self) -> None:
        self._exact: dict[str, _Mean] = {}
        self._columns: dict[str, dict[Any, _Mean]] = {}
        self._overall = _Mean()
        self._logs = _Mean()
        self._log_squares = 0.0
        self.version = 0
        """Grows whenever expectations may have changed."""

    @property
    def count(self) -> int:
        return self._overall.count

    @property
    def mean_s(self) -> float | None:
        """Average seconds of an item; None before the first."""
        return self._overall.total / self._overall.count if self._overall.count else None

    def tell(self, content: str, params: Mapping[str, Any], seconds: float) -> None:
        """An item with these parameters took this long."""
        self._overall.add(seconds)
        if seconds < SHORT_S:
            return
        self.version += 1
        logarithm = math.log(seconds)
        self._logs.add(logarithm)
        self._log_squares += logarithm * logarithm
        if content:
            self._exact.setdefault(content, _Mean()).add(seconds)
        for column, value in params.items():
            if column.startswith(HIDDEN):
                continue
            values = self._columns.setdefault(column, {})
            key = _key(value)
            if key in values or len(values) < MOST_VALUES:
                values.setdefault(key, _Mean()).add(logarithm)

    def tell_all(self, measured: Iterable[tuple[str, Mapping[str, Any], float]]) -> None:
        for content, params, seconds in measured:
            self.tell(content, params, seconds)

    def expect(self, item: Item) -> float | None:
        """Seconds this item will take; None when nothing has been learned."""
        mean = self.mean_s
        if mean is None or mean < SHORT_S:
            return mean
        exact = self._exact.get(item.content)
        if exact is not None:
            return exact.total / exact.count
        if self._logs.count < 2 or self._log_spread() < 0.05:
            return mean
        return self._by_parameters(item.params)

    def _by_parameters(self, params: Mapping[str, Any]) -> float:
        """The overall mean, moved by how far each parameter's value usually lies from it; unseen ones count as long."""
        centre = self._logs.total / self._logs.count
        effect, unseen = 0.0, 0
        for column, value in params.items():
            values = self._columns.get(column)
            if not values or len(values) < 2:
                continue
            mean = values.get(_key(value))
            if mean is None:
                unseen += 1
                continue
            effect += (mean.total - mean.count * centre) / (mean.count + SMOOTHING)
        # A value that was never seen may be the long one: it is better found out early than at the end.
        return math.exp(centre + effect + (self._log_spread() if unseen else 0.0))

    def _log_spread(self) -> float:
        mean = self._logs.total / self._logs.count
        return math.sqrt(max(0.0, self._log_squares / self._logs.count - mean * mean))


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def makespan(durations: Sequence[float], workers: int) -> float:
    """Seconds that longest-first list scheduling takes: what the pool does when it knows the durations."""
    ends = [0.0] * max(1, min(workers, len(durations) or 1))
    for seconds in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


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
