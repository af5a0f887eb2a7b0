"""Scalability: what was measured of so many workers or nodes together, and the law fitted to it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

LEAST_S = 8.0
"""Seconds of observation after which the rate of a number of workers counts: ends come in bursts."""
SETTLE_S = 2.0
"""After their number changed, what ends was begun before."""
PAYS = 0.02
"""One more pays when throughput grows by more than this share."""
LINEAR_SHARE = 0.2
"""Among many workers one more pays when it adds this share of what it would do alone."""
_SMALLEST = 1e-12


class Watch:
    """Told of items that go out and end, and of the nodes at work.

    `earlier` has what `document` gave in earlier runs, by the kind of node.
    """

    def __init__(self, earlier: Mapping[str, Mapping[str, Any]]) -> None:
        self._earlier = earlier
        self._seen: dict[str, Throughput] = {}
        self._most: dict[str, int] = {}
        """The most nodes of a kind that were at work at once."""
        self._out: dict[int, tuple[int, float]] = {}
        """By item: the worker, and when it got it."""
        self._free: dict[int, float] = {}
        """When a worker ended its last item: it may have had the next one by then."""

    def sent(self, item: int, worker: int, now: float) -> None:
        """This worker got this item."""
        self._out[item] = (worker, now)

    def tell(self, now: float, nodes: Mapping[str, int], inputs: float, item: int) -> None:
        """An item ended with so many inputs; so many nodes of each kind are at work now.

        While there are several kinds, it is not known what those of one kind do.
        """
        worker, sent = self._out.pop(item, (-1, now))
        began, self._free[worker] = max(sent, self._free.get(worker, sent)), now
        for kind, count in nodes.items():
            self._seen.setdefault(kind, Throughput())
            self._most[kind] = max(count, self._most.get(kind, 0))
        for kind, seen in self._seen.items():
            seen.tell(now, nodes.get(kind, 0) if len(nodes) == 1 else 0, inputs, began)

    def document(self, kind: str) -> dict[str, Any]:
        """Over all runs, as JSON values; what this run saw of a number of nodes replaces what earlier ones did."""
        earlier = self._earlier.get(kind, {})
        points = self._seen[kind].points() if kind in self._seen else {}
        return {
            "nodes": self._most.get(kind) or earlier.get("nodes", 1),
            "by_nodes": earlier.get("by_nodes", {}) | {str(count): rate for count, rate in points.items()},
        }


class Nodes(NamedTuple):
    """Nodes of one kind, as earlier runs saw them."""

    rate: float
    """Inputs a second of one of them."""
    workers: int
    """At work on each."""
    seen: int = 1
    """How many nodes were at work when that was measured."""
    by_nodes: Mapping[int, float] = {}
    """Inputs a second by number of nodes, where that was observed."""

    @classmethod
    def read(cls, rate: float, workers: int, document: Mapping[str, Any]) -> Nodes:
        """`document` has what `Watch.document` gave; in older ones that is missing."""
        by_nodes = {int(count): float(each) for count, each in document.get("by_nodes", {}).items()}
        return cls(rate, workers, int(document.get("nodes", 1)), by_nodes)

    def law(self) -> Usl | None:
        """Over nodes; None unless several numbers of them were watched."""
        return fit(self.by_nodes.items()) if len(self.by_nodes) > 1 else None

    def independent(self, count: int) -> float:
        """Inputs a second of `count` nodes that do not disturb each other."""
        return self.rate * count

    def together(self, count: int) -> float:
        """The same by the law, which says how the rate changes with their number; without one, as if independent."""
        law = self.law()
        if law is None:
            return self.independent(count)
        return self.independent(self.seen) * law.throughput(count) / law.throughput(self.seen)


def work_s(inputs: int, rate: float, workers: int, shortest_s: float, item: int | None = None) -> float:
    """Seconds that so many inputs take at `rate` a second of all workers together.

    An item takes a worker no less than `shortest_s`, or has the inputs that `item` says: when there are more workers
    than items, some have nothing to do.
    """
    each = rate / workers
    if item is None:
        return max(inputs / rate, min(inputs, max(1, int(shortest_s * each))) / each)
    rounds = -(-inputs // (item * workers))
    return max(inputs / rate, min(inputs, rounds * item) / each)


class Throughput:
    """Told of ends as they come, and of the workers that work. Time is whoever calls'."""

    def __init__(self) -> None:
        self._workers = 0
        self._from: float | None = None
        """Since when what ends counts for this number of workers."""
        self._at = 0.0
        self._watched: dict[int, tuple[float, float]] = {}
        """By the number of workers: what they did, and seconds."""

    def tell(self, now: float, workers: int, amount: float, began: float | None = None) -> None:
        """Since the last call, so much ended; so many workers work now.

        Of what `began` before it counts, only the part that was done since does.
        """
        if workers != self._workers or self._from is None:
            self._workers, self._from, self._at = workers, now + SETTLE_S, now + SETTLE_S
            return
        if now < self._from or workers == 0:
            return
        if began is not None and began < self._from:
            amount *= (now - self._from) / (now - began)
        done, seconds = self._watched.get(workers, (0.0, 0.0))
        self._watched[workers] = (done + amount, seconds + now - self._at)
        self._at = now

    def points(self) -> dict[int, float]:
        """Throughput by number of workers, for numbers that were observed long enough."""
        return {
            workers: done / seconds
            for workers, (done, seconds) in sorted(self._watched.items())
            if seconds >= LEAST_S and done > 0
        }

    def law(self) -> Usl | None:
        """How throughput grows with workers; None while fewer than two numbers of them were watched."""
        points = self.points()
        return fit(points.items()) if len(points) > 1 else None


class Usl(NamedTuple):
    """The law with its three figures."""

    first: float
    """What one does alone, per second (lambda)."""
    contention: float = 0.0
    """The share that they do one after the other (sigma)."""
    coherence: float = 0.0
    """What each pair of them costs (kappa); above 0, more of them do less in the end."""

    def throughput(self, count: float) -> float:
        """Throughput of `count` workers, per second."""
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
