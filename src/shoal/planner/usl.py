"""The Universal Scalability Law: what N workers do together, fitted to what was measured. Pure arithmetic.

X(N) = first * N / (1 + contention * (N - 1) + coherence * N * (N - 1)), after Gunther.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

PAYS = 0.02
"""One more pays when throughput grows by more than this share."""
LINEAR_SHARE = 0.2
"""Among many, one more is a small share at best: then it pays when it does so much of what it would do alone."""
_SMALLEST = 1e-12


class Usl(NamedTuple):
    """The law with its three figures."""

    first: float
    """What one does alone, per second (lambda)."""
    contention: float = 0.0
    """The share that they do one after the other (sigma)."""
    coherence: float = 0.0
    """What each pair of them costs (kappa); above 0, more of them do less in the end."""

    def throughput(self, count: float) -> float:
        """What so many do together, per second."""
        if count <= 0:
            return 0.0
        pairs = count * (count - 1)
        return self.first * count / max(_SMALLEST, 1 + self.contention * (count - 1) + self.coherence * pairs)

    def gain(self, count: float, more: float = 1) -> float:
        """The share by which `more` further ones raise the throughput of `count`; below 0 when they lower it."""
        before = self.throughput(count)
        return self.throughput(count + more) / before - 1 if before > 0 else math.inf

    def pays(self, count: float, more: float = 1) -> bool:
        """Whether `more` further ones are worth having beside `count`."""
        return self.gain(count, more) >= min(PAYS, LINEAR_SHARE * more / max(count, _SMALLEST))

    def enough(self, most: int) -> int:
        """The fewest, of up to `most`, that do as much as any number of those, but for what does not pay."""
        best = max(self.throughput(count) for count in range(1, max(1, most) + 1))
        bar = best * (1 - min(PAYS, LINEAR_SHARE / max(1, most)))
        return next(count for count in range(1, most + 1) if self.throughput(count) >= bar)

    @property
    def peak(self) -> float:
        """The number beyond which more of them do less; infinite when there is none."""
        if self.coherence <= 0:
            return math.inf
        return max(1.0, math.sqrt(max(0.0, 1 - self.contention) / self.coherence))


def fit(points: Iterable[tuple[float, float]]) -> Usl | None:
    """The law that fits (count, throughput) best, in relative error; None without a usable point.

    N / X(N) is linear in 1, N - 1 and N * (N - 1), and none of the three factors may be below 0: of the fits to any
    of the three columns, the best one without a negative factor is taken. With n different counts, n factors at most.
    """
    usable = [(count, rate) for count, rate in points if count >= 1 and 0 < rate < math.inf]
    if not usable:
        return None
    columns = [(1.0, count - 1, count * (count - 1)) for count, _ in usable]
    targets = [count / rate for count, rate in usable]
    weights = [1 / (target * target) for target in targets]
    most = len({count for count, _ in usable})
    best: tuple[float, tuple[float, float, float]] | None = None
    for size in range(1, min(3, most) + 1):
        for chosen in combinations(range(3), size):
            found = _factors(columns, targets, weights, chosen)
            if found is None:
                continue
            error = _error(columns, targets, weights, found)
            # One more factor has to earn its place: otherwise rounding alone would choose it.
            if best is None or error < best[0] * (1 - 1e-6) - _SMALLEST:
                best = error, found
    if best is None:
        return None
    first, contention, coherence = best[1]
    return Usl(1 / first, contention / first, coherence / first)


def _factors(
    columns: Sequence[tuple[float, float, float]],
    targets: Sequence[float],
    weights: Sequence[float],
    chosen: Sequence[int],
) -> tuple[float, float, float] | None:
    """Weighted least squares over the chosen columns; None where it has no answer, or not one above 0."""
    if 0 not in chosen:  # One worker alone always takes some time.
        return None
    matrix = [
        [sum(w * row[i] * row[j] for w, row in zip(weights, columns, strict=True)) for j in chosen]
        for i in chosen
    ]
    right = [sum(w * row[i] * y for w, row, y in zip(weights, columns, targets, strict=True)) for i in chosen]
    solved = solve(matrix, right)
    if solved is None or any(value < 0 for value in solved) or solved[0] <= 0:
        return None
    all_three = [0.0, 0.0, 0.0]
    for column, value in zip(chosen, solved, strict=True):
        all_three[column] = value
    return all_three[0], all_three[1], all_three[2]


def _error(
    columns: Sequence[tuple[float, float, float]],
    targets: Sequence[float],
    weights: Sequence[float],
    factors: tuple[float, float, float],
) -> float:
    return sum(
        weight * (sum(a * b for a, b in zip(row, factors, strict=True)) - target) ** 2
        for weight, row, target in zip(weights, columns, targets, strict=True)
    )


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """Linear equations by elimination with pivots; None when they have no single answer."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    scale = max((abs(value) for row in matrix for value in row), default=0.0)
    for column in range(size):
        pivot = max(range(column, size), key=lambda index: abs(rows[index][column]))
        if abs(rows[pivot][column]) <= 1e-12 * scale:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for other in range(size):
            if other != column:
                factor = rows[other][column] / rows[column][column]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[column], strict=True)]
    return [rows[index][size] / rows[index][index] for index in range(size)]
