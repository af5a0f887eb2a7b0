"""How many inputs a model should get at once: a model of a batch's time, and which batches to look at next. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from shoal.planner.usl import solve

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
