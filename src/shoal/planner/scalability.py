"""What nodes of one kind do together: watched while they work, and for other numbers of them by the law of
scalability over nodes. Not what the workers of one node do together, which is in `knowledge`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.planner.throughput import Throughput
from shoal.planner.usl import Usl, fit


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
    """Inputs a second of so many nodes together, where that was watched."""

    @classmethod
    def read(cls, rate: float, workers: int, document: Mapping[str, Any]) -> Nodes:
        """`document` has what `Watch.document` gave; in older ones that is missing."""
        by_nodes = {int(count): float(each) for count, each in document.get("by_nodes", {}).items()}
        return cls(rate, workers, int(document.get("nodes", 1)), by_nodes)

    def law(self) -> Usl | None:
        """Over nodes; None unless several numbers of them were watched."""
        return fit(self.by_nodes.items()) if len(self.by_nodes) > 1 else None

    def independent(self, count: int) -> float:
        """Inputs a second of so many, if none is in another's way."""
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
