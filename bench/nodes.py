"""What an item costs the driver on clusters of 10, 100 and 1,000 nodes: CPU time in the simulation, no node needed.

    python bench/nodes.py [--items 60000] [--nodes 10,100,1000] [--json]

The same pool that runs workloads runs here, on simulated nodes of one CPU, with items of about a second. The time
spent inside the simulation is told apart from the pool's own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from shoal.engine.sim import Behaviour, SimEngine, SimWorld
from shoal.model import Factory, Item, Need, Node, Outcome
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal

CALLS = ("capacity", "nodes", "reserve", "spawn", "submit", "wait", "now", "recall", "end", "kill", "cancel")


class Numbers:
    """So many items, which differ in nothing but their number."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._given = 0

    def take(self, most: int, workers: int) -> Sequence[Item]:
        first = self._given + 1
        self._given = min(self._count, self._given + most)
        return [Item(seq, f"n{seq}", {}, content=str(seq)) for seq in range(first, self._given + 1)]

    def left(self) -> int:
        return self._count - self._given

    def finished(self) -> bool:
        return self._given == self._count

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


class Stopwatch:
    """CPU seconds spent in calls of an engine."""

    def __init__(self, engine: SimEngine) -> None:
        self.seconds = 0.0
        for name in CALLS:
            setattr(engine, name, self._timed(getattr(engine, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.process_time() - began

        return timed


def measure(nodes: int, items: int, *, apart: bool) -> tuple[float, float | None]:
    """Microseconds of CPU an item: in all, and where it is told apart, without the simulation."""
    random = Random(1)
    seconds = [random.uniform(0.5, 1.5) for _ in range(items + 1)]
    world = SimWorld(
        [Node(f"n{number}", 1.0, 1 << 30) for number in range(nodes)],
        lambda factory, item: Behaviour(seconds[item.seq]),
    )
    engine = world.connect()
    stopwatch = Stopwatch(engine) if apart else None
    journal = MemoryJournal()
    pool = Pool(engine, journal, [Lane(Factory("sim:x"), Need())], Numbers(items))
    began = time.process_time()
    pool.run()
    took = time.process_time() - began
    assert journal.counts()["done"] == items
    return took / items * 1e6, (took - stopwatch.seconds) / items * 1e6 if stopwatch else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--nodes", default="10,100,1000")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    for count in map(int, arguments.nodes.split(",")):
        whole, _ = measure(count, arguments.items, apart=False)
        timed, own = measure(count, arguments.items, apart=True)
        assert own is not None
        found.append({"nodes": count, "us": whole, "pool_share": own / timed, "pool_us": whole * own / timed})
        if not arguments.json:
            print(
                f"{count:5} nodes: {whole:6.1f} us of CPU an item, of which the pool {whole * own / timed:6.1f}"
                f" us; {whole / found[0]['us']:.2f} times that with {found[0]['nodes']:g}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"items": arguments.items, "figures": found}, indent=2))


if __name__ == "__main__":
    main()
