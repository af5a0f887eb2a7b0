"""What was measured of every setting, put together: rates that noise hardly moves, and how sure they are. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shoal.model.advice import Machine, Measured, Setting
from shoal.planner.tuner.batches import MEASURED, MEASURED_S

KEPT = 40
"""Measurements of a point that count: the latest ones."""
NOISE = 0.05
"""What measurements are thought to scatter by, before it is known."""
SHORTEST_S = 1e-6
"""What took no time, by a clock that is too coarse, says nothing."""
LEAST_NOISE, MOST_NOISE = 0.02, 0.15


class Point(NamedTuple):
    """A setting, and the number of workers of a node that used it."""

    setting: Setting
    workers: int


class Estimate(NamedTuple):
    """What is known of a point."""

    rate: float
    """Inputs a second of one worker."""
    score: float
    """What points are compared by."""
    sure: float
    """How many full measurements it rests on."""
    predicting: float
    """The share of the time that the model took."""

    def weaker(self) -> Estimate:
        """The same, taken from other circumstances."""
        return self._replace(sure=min(0.5, self.sure))


class Sample(NamedTuple):
    rate: float
    score: float
    weight: float
    predicting: float


class Totals(NamedTuple):
    """For the report: all of a point's measurements, those of earlier runs, too."""

    rows: int = 0
    seconds: float = 0.0
    samples: int = 0
    memory_bytes: int = 0
    device_bytes: int = 0

    def plus(self, measured: Measured) -> Totals:
        return Totals(
            self.rows + measured.rows,
            self.seconds + measured.seconds,
            self.samples + 1,
            max(self.memory_bytes, measured.memory_bytes),
            max(self.device_bytes, measured.device_bytes),
        )


class Curve:
    """All measurements on one kind of node."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._samples: dict[Point, deque[Sample]] = {}
        self._totals: dict[Point, Totals] = {}
        self._estimates: dict[Point, Estimate] = {}
        self._noise: float | None = None

    def add(self, measured: Measured) -> None:
        """Take in a measurement that says something; others are left out."""
        if measured.rows <= 0 or not SHORTEST_S <= measured.seconds < math.inf:
            return
        point = Point(measured.setting, measured.workers)
        self._totals[point] = self._totals.get(point, Totals()).plus(measured)
        predict_s = min(max(measured.predict_s, 0.0), measured.seconds)
        # Workers that share a GPU wait for it together: what the model takes there counts once more.
        time_s = measured.seconds + (predict_s if self._machine.gpu else 0.0)
        batches = measured.rows / measured.setting.batch
        weight = min(1.0, measured.seconds / MEASURED_S, batches / MEASURED)
        sample = Sample(measured.rate, measured.rows / time_s, weight, predict_s / measured.seconds)
        self._samples.setdefault(point, deque(maxlen=KEPT)).append(sample)
        self._estimates.pop(point, None)
        self._noise = None

    def estimate(self, setting: Setting, workers: int) -> Estimate | None:
        """Of this very point, or else of the nearest number of workers."""
        exact = self.exactly(setting, workers)
        if exact is not None:
            return exact
        others = [point for point in self._samples if point.setting == setting]
        if not others:
            return None
        nearest = min(others, key=lambda point: (abs(point.workers - workers), point.workers))
        found = self.exactly(setting, nearest.workers)
        return found and found.weaker()

    def exactly(self, setting: Setting, workers: int) -> Estimate | None:
        point = Point(setting, workers)
        if point not in self._estimates and point in self._samples:
            self._estimates[point] = _estimate(list(self._samples[point]))
        return self._estimates.get(point)

    def recent(self, setting: Setting, workers: int, count: int) -> float | None:
        """The rate by the latest `count` measurements; None when there are fewer."""
        samples = list(self._samples.get(Point(setting, workers), ()))
        return _estimate(samples[-count:]).rate if len(samples) >= count else None

    def settings(self) -> Iterator[Setting]:
        """Each that was measured, with whatever number of workers."""
        yield from dict.fromkeys(point.setting for point in self._samples)

    def by_workers(self, setting: Setting) -> dict[int, Estimate]:
        """Estimates of a setting by the number of workers."""
        counts = [point.workers for point in self._samples if point.setting == setting]
        return {count: found for count in counts if (found := self.exactly(setting, count)) is not None}

    def noise(self) -> float:
        """The share by which measurements of the same point scatter, as far as is known."""
        if self._noise is None:
            self._noise = self._scatter()
        return self._noise

    def _scatter(self) -> float:
        scatter: list[float] = []
        for samples in self._samples.values():
            full = [sample for sample in samples if sample.weight >= 0.9]
            if len(full) >= 3:
                middle = _estimate(full).score
                scatter += [abs(sample.score / middle - 1) for sample in full]
        if len(scatter) < 6:
            return NOISE
        # A median of distances from the middle, as a standard deviation; small samples show too little of it.
        measured = 1.48 * sorted(scatter)[len(scatter) // 2] * 1.2
        return min(MOST_NOISE, max(LEAST_NOISE, measured))

    def forget(self, keep: int, setting: Setting) -> None:
        """Things are not as they were: only the latest measurements of this setting still count."""
        self._samples = {
            point: deque(list(samples)[-keep:], maxlen=KEPT)
            for point, samples in self._samples.items()
            if point.setting == setting
        }
        self._estimates, self._noise = {}, None

    def document(self) -> list[dict[str, Any]]:
        """Every point as JSON values, the rate of the node among them."""
        entries = []
        for point, totals in sorted(self._totals.items()):
            now = self.exactly(*point)
            rate = now.rate if now else totals.rows / totals.seconds
            entry = point.setting._asdict() | {"workers": point.workers} | totals._asdict()
            entries.append(entry | {"rate": rate, "node_rate": rate * point.workers})
        return entries

    def read(self, entries: list[Mapping[str, Any]]) -> None:
        """What an earlier run measured: for the report, not for comparisons, as the machine may have changed."""
        for entry in entries:
            setting = Setting(str(entry["runtime"]), int(entry["batch"]), int(entry["threads"]))
            totals = Totals(
                int(entry["rows"]),
                float(entry["seconds"]),
                int(entry["samples"]),
                int(entry["memory_bytes"]),
                int(entry["device_bytes"]),
            )
            self._totals[Point(setting, int(entry["workers"]))] = totals


def _estimate(samples: list[Sample]) -> Estimate:
    """By what is in the middle; a measurement that was cut short counts for less."""
    return Estimate(
        _middle([(sample.rate, sample.weight) for sample in samples]),
        _middle([(sample.score, sample.weight) for sample in samples]),
        sum(sample.weight for sample in samples),
        _middle([(sample.predicting, sample.weight) for sample in samples]),
    )


def _middle(values: list[tuple[float, float]]) -> float:
    """The mean of the middle half of the weight: as robust as a median against what goes wrong once, and steadier."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    low, high = total / 4, total * 3 / 4
    below, mean = 0.0, 0.0
    for value, weight in ordered:
        inside = min(below + weight, high) - max(below, low)
        mean += value * max(0.0, inside)
        below += weight
    return mean / (high - low)
