"""Batches: models of the time and the memory that one takes, and which sizes to try."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.model.advice import Machine, Measured, Setting
from shoal.planner.scalability import solve

WARM_UP = 2
"""Batches after a change that are not measured."""
MEASURED = 3
"""Batches that a measurement should have, and the seconds."""
MEASURED_S = 0.3
STEEP = 1.25
"""Where the rate rose by this much with the last step up, the next step is a larger one."""
STRIDE = 4
REACH = 3
"""Doublings on each side of the best batch that are looked at together."""
MARGIN = 0.2
"""The share of memory that stays free."""
CLIMB = 4
"""Largest batch that is allowed, as a multiple of the largest one that fitted."""
UNKNOWN_BYTES = 1 << 30
"""What a worker is thought to hold before one has told."""


class BatchModel(NamedTuple):
    """A batch takes `overhead_s`, and `each_s` for each input."""

    overhead_s: float
    each_s: float

    def rate(self, batch: float) -> float:
        """Inputs a second."""
        return batch / (self.overhead_s + self.each_s * batch)


def fit(rates: Mapping[int, float]) -> BatchModel | None:
    """From measured rates by batch: seconds per input are linear in 1 / batch. By relative error; None without any."""
    usable = {batch: rate for batch, rate in rates.items() if rate > 0}
    if not usable:
        return None
    weights = {batch: rate * rate for batch, rate in usable.items()}
    total = sum(weights.values())
    mean_x = sum(weight / batch for batch, weight in weights.items()) / total
    mean_y = sum(weight / usable[batch] for batch, weight in weights.items()) / total
    spread = sum(weight * (1 / batch - mean_x) ** 2 for batch, weight in weights.items())
    product = sum(
        weight * (1 / batch - mean_x) * (1 / usable[batch] - mean_y) for batch, weight in weights.items()
    )
    overhead = max(0.0, product / spread) if spread > 0 else 0.0
    each = mean_y - overhead * mean_x
    if each <= 0:  # All of it is overhead: a line through nothing.
        return BatchModel(mean_y / mean_x, mean_y * 1e-6)
    return BatchModel(overhead, each)


def smooth(points: Mapping[int, tuple[float, float]], strength: float) -> dict[int, float]:
    """Rates by batch, each with how sure it is, moved towards a parabola over the doublings around the best one.

    Neighbours tell of each other: a rate that stands out among them is more likely to be noise. `strength` is what
    the parabola counts, in measurements. With fewer than four points there is nothing to compare.
    """
    rates = {batch: rate for batch, (rate, _) in points.items()}
    best = max(rates, key=lambda batch: rates[batch], default=1)
    near = [batch for batch in rates if abs(math.log2(batch / best)) <= REACH and rates[batch] > 0]
    if len(near) < 4:
        return rates
    columns = {batch: (1.0, x := math.log2(batch / best), x * x) for batch in near}
    weights = {batch: points[batch][1] for batch in near}
    matrix = [
        [sum(weights[b] * columns[b][i] * columns[b][j] for b in near) for j in range(3)] for i in range(3)
    ]
    right = [sum(weights[b] * columns[b][i] * math.log(rates[b]) for b in near) for i in range(3)]
    factors = solve(matrix, right)
    if factors is None or factors[2] > 0:  # It opens upwards: it would favour both ends.
        return rates
    for batch in near:
        fitted = math.exp(
            sum(factor * column for factor, column in zip(factors, columns[batch], strict=True))
        )
        sure = points[batch][1]
        rates[batch] = (rates[batch] * sure + fitted * strength) / (sure + strength)
    return rates


def rows_needed(batch: int, rate: float | None, *, batches: int = WARM_UP + MEASURED) -> int:
    """Inputs that a step must have so that what is measured of it says something, where one worker does `rate`."""
    seconds = MEASURED_S * batches / MEASURED
    return max(batches * batch, math.ceil(seconds * rate / batch) * batch if rate else 0)


def next_to(rates: Mapping[int, float], largest: int) -> list[int]:
    """The batches worth looking at around the best of those that were measured: larger ones first, none twice.

    Steps are large where the rate still rises steeply, and halve the gap to a neighbour that was measured elsewhere.
    """
    if not rates:
        return [1]
    best = max(rates, key=lambda batch: (rates[batch], -batch))
    above = min((batch for batch in rates if batch > best), default=None)
    below = max((batch for batch in rates if batch < best), default=None)
    found: list[int] = []
    if above is None:
        steep = below is None or rates[best] > STEEP * rates[below]
        up = min(largest, best * (STRIDE if steep else 2))
        if up >= best * STEEP:
            found.append(up)
    elif above > 2 * best:
        found.append(_between(best, above))
    if below is None and best > 1:
        found.append(max(1, best // (2 if above else STRIDE)))
    elif below is not None and best > 2 * below:
        found.append(_between(below, best))
    return [batch for batch in found if batch <= largest and batch not in rates]


def _between(low: int, high: int) -> int:
    """The power of two in the middle, on a logarithmic scale; or the middle itself where there is none."""
    power: int = 2 ** round(math.log2(low * high) / 2)
    return power if low < power < high else (low + high) // 2


class Growth(NamedTuple):
    """Bytes by batch: known points, straight lines between them, and a constant per input outside of them."""

    points: tuple[tuple[int, float], ...]
    """By batch; they never fall."""
    slope: float = 0.0

    def at(self, batch: int) -> float:
        after = bisect_right(self.points, batch, key=lambda point: point[0])
        if after in (0, len(self.points)):
            known, value = self.points[max(0, after - 1)]
            return max(0.0, value + self.slope * (batch - known))
        (left, low), (right, high) = self.points[after - 1 : after + 1]
        return low + (high - low) * (batch - left) / (right - left)

    def most(self, limit: float, largest: int) -> int:
        """The largest batch, of those up to `largest`, that stays within the limit; 0 where none does."""
        return bisect_right(range(1, largest + 1), limit, key=self.at)


def fit_memory(points: Mapping[int, float]) -> Growth | None:
    """How memory grows by what was held: no batch takes more than a larger one was seen to. None without points."""
    if not points:
        return None
    lowest = math.inf
    found: list[tuple[int, float]] = []
    for batch in sorted(points, reverse=True):
        lowest = min(lowest, points[batch])
        found.insert(0, (batch, lowest))
    mean_x = sum(batch for batch, _ in found) / len(found)
    mean_y = sum(value for _, value in found) / len(found)
    spread = sum((batch - mean_x) ** 2 for batch, _ in found)
    slope = sum((batch - mean_x) * (value - mean_y) for batch, value in found) / spread if spread else 0.0
    return Growth(tuple(found), max(0.0, slope))


class Memory:
    """What is known of the memory of workers on one kind of node."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._host: dict[str, dict[int, float]] = {}
        self._device: dict[str, dict[int, float]] = {}
        self._fitted: dict[tuple[bool, str], Growth | None] = {}
        """What was asked for since something new was heard."""
        self._seen: dict[str, int] = {}
        """The largest batch that each runtime is known to manage."""
        self.largest: dict[str, int] = {}
        """Bounds from what ran out of memory, by runtime. At a GPU of this run, and of so many workers: others may have
        been in the way."""
        self.suspected: dict[str, int] = {}
        """Bounds from workers that died with a batch, perhaps of something else: of this run alone."""
        self.most: int | None = None
        """A bound on workers, where memory ran out whatever the batch. Of this run: others may have been in the way."""

    def hear(self, measured: Measured) -> None:
        setting = measured.setting
        self._fitted.clear()
        self._seen[setting.runtime] = max(self._seen.get(setting.runtime, 0), setting.batch)
        for points, value in ((self._host, measured.memory_bytes), (self._device, measured.device_bytes)):
            if value > 0:
                by_batch = points.setdefault(setting.runtime, {})
                by_batch[setting.batch] = min(value, by_batch.get(setting.batch, value))

    @property
    def is_known(self) -> bool:
        """Whether any worker has told what it holds."""
        return bool(self._host)

    def seen(self, runtime: str) -> int:
        """The largest batch that this runtime is known to manage; 0 before any."""
        return self._seen.get(runtime, 0)

    def ran_out(self, setting: Setting, workers: int) -> None:
        """Memory did not suffice for this batch: half of it is the most from now on."""
        half = max(1, setting.batch // 2)
        self.largest[setting.runtime] = min(half, self.largest.get(setting.runtime, half))
        if setting.batch == 1 and workers > 1:
            self.most = min(workers // 2, self.most or workers)

    def suspect(self, setting: Setting) -> None:
        """Workers died with this batch."""
        half = max(1, setting.batch // 2)
        self.suspected[setting.runtime] = min(half, self.suspected.get(setting.runtime, half))

    def crowded(self, workers: int) -> None:
        """The model itself did not fit into memory with `workers` workers: allow one less."""
        self.most = max(1, min(workers - 1, self.most or workers))
        if self._machine.gpu > 0:  # The others have more now.
            self.largest.clear()

    def allowed(self, runtime: str, workers: int, largest: int) -> int:
        """The largest batch that so many workers on a node may use at once; 1 at least."""
        largest = self.bound(runtime, largest)
        # A runtime that is new is trusted as far as another one came, if it is known how memory grows there.
        known = self._seen.get(runtime) or max(
            (self._seen[name] // CLIMB for name, points in self._host.items() if len(points) > 1), default=1
        )
        largest = min(largest, CLIMB * max(1, known))
        for growth, limit in self._limits(runtime, workers):
            largest = growth.most(limit, largest)
        return max(1, largest)

    def bound(self, runtime: str, batch: int) -> int:
        """Not more than what is known to be too much."""
        return min(batch, *(bounds.get(runtime, batch) for bounds in (self.largest, self.suspected)))

    def fitting(self, runtime: str, batch: int, most: int) -> int:
        """How many workers, of `most`, have memory for this on one node; 1 at least."""
        most = most if self.most is None else min(most, self.most)
        if not self._host:
            return max(1, min(most, int(self._limit() / UNKNOWN_BYTES))) if self._limit() else most
        while most > 1 and not self.holds(runtime, batch, most):
            most -= 1
        return max(1, most)

    def holds(self, runtime: str, batch: int, workers: int) -> bool:
        """Whether so many workers with this batch stay within what there is, as far as is known."""
        if self.most is not None and workers > self.most:
            return False
        return all(growth.at(batch) <= limit for growth, limit in self._limits(runtime, workers))

    def expected(self, runtime: str, batch: int) -> int | None:
        """What one worker will hold with this batch; None where nothing is known."""
        growth = self._growth(runtime)
        return None if growth is None else round(growth.at(batch))

    def expected_on_device(self, runtime: str, batch: int) -> int | None:
        """The same on its GPU."""
        growth = self._growth(runtime, device=True)
        return None if growth is None else round(growth.at(batch))

    def _limit(self) -> float:
        return self._machine.memory_bytes * (1 - MARGIN)

    def _limits(self, runtime: str, workers: int) -> list[tuple[Growth, float]]:
        """How memory grows, on the node and on its GPU, and what a single worker may have of it."""
        found: list[tuple[Growth, float]] = []
        host, device = self._growth(runtime), self._growth(runtime, device=True)
        if host is not None and self._machine.memory_bytes > 0:
            found.append((host, self._limit() / workers))
        if device is not None and self._machine.gpu > 0 and self._machine.gpu_memory_bytes > 0:
            sharing = -(-workers // self._machine.gpu)
            found.append((device, self._machine.gpu_memory_bytes * (1 - MARGIN) / sharing))
        return found

    def _growth(self, runtime: str, *, device: bool = False) -> Growth | None:
        """Its own; with a single point, as steep as the others; with none, the steepest and highest of them."""
        if (device, runtime) not in self._fitted:
            points = self._device if device else self._host
            own = points.get(runtime, {})
            growth = fit_memory(own)
            others = [
                found for name, each in points.items() if name != runtime and (found := fit_memory(each))
            ]
            slope = max((other.slope for other in others), default=0.0)
            if growth is None and others:
                growth = Growth(((0, max(other.at(0) for other in others)),), slope)
            elif growth is not None and len(own) == 1:
                growth = growth._replace(slope=slope)
            self._fitted[device, runtime] = growth
        return self._fitted[device, runtime]

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "largest": dict(self.largest),
            "host": _plain(self._host),
            "device": _plain(self._device),
            "seen": dict(self._seen),
        }

    def read(self, document: Mapping[str, Any]) -> None:
        """From `document`, of an earlier run."""
        self._fitted.clear()
        self._host, self._device = _points(document["host"]), _points(document["device"])
        self._seen = {str(name): int(batch) for name, batch in document["seen"].items()}
        if self._machine.gpu == 0:
            self.largest = {str(name): int(batch) for name, batch in document["largest"].items()}


def _plain(points: Mapping[str, Mapping[int, float]]) -> dict[str, list[list[float]]]:
    return {name: sorted([batch, value] for batch, value in each.items()) for name, each in points.items()}


def _points(plain: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    return {str(name): {int(b): float(v) for b, v in each} for name, each in plain.items()}
