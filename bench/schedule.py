"""How well trials of different lengths are spread over nodes, when nothing is known of them beforehand."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import trials
from figures import Figure
from workbench import Spread, Workbench

SHEET = (59, 59, 346, 77, 146, 146)
"""The six rows of the research group, in seconds then and in milliseconds here."""
NODES = 3


class Sizes(NamedTuple):
    times: int = 7
    """How often the sheet is repeated."""
    repetitions: int = 5


QUICK = Sizes(1, 1)


def against_best(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(c) The sheet over and over on three nodes, against the best possible schedule."""
    durations = SHEET * sizes.times
    best = best_makespan(durations, NODES) / 1000
    what = f"{len(durations)} trials on {NODES} nodes against the best schedule"
    for name, kind, target in (
        ("numbered", "rows with a number and a setting each", 1.05),
        ("repeated", "rows that are repeated", 1.05),
        ("silent", "rows that say nothing of their length", None),
    ):
        workload = _workload(bench, name, durations)
        took = Spread.of([bench.drive(workload, nodes=NODES).seconds for _ in range(sizes.repetitions)])
        yield Figure(
            "c",
            f"{what}, {kind}",
            took.median / best,
            at_most=target,
            how=f"{took.words('.3f', ' s')}; best {best:.3f} s",
        )
    computed = max(sum(durations[node::NODES]) for node in range(NODES)) / 1000
    yield Figure(
        "c",
        f"{what}, were row i given to node i mod {NODES}",
        by_hand(durations) / best,
        how=f"computed {computed:.3f} s",
    )


def _workload(bench: Workbench, name: str, durations: Sequence[int]) -> Path:
    count = len(durations)
    if name == "silent":
        path = bench.workload(
            name, ("number",), [(n,) for n in range(1, count + 1)], "function: trials:wait_by_number"
        )
        (path.parent / "milliseconds.txt").write_text(" ".join(map(str, durations)))
        return path
    columns: tuple[str, ...] = ("milliseconds", "number")
    rows: list[tuple[Any, ...]] = [(value, number) for number, value in enumerate(durations, 1)]
    if name == "repeated":
        columns, rows = columns[:1], [row[:1] for row in rows]
    return bench.workload(name, columns, rows, "function: trials:wait")


def by_hand(durations: Sequence[int]) -> float:
    """Seconds that giving row i to node i mod 3 takes."""

    def node(number: int) -> None:
        for milliseconds in durations[number::NODES]:
            trials.wait(milliseconds)

    with ThreadPoolExecutor(NODES) as nodes:
        began = time.perf_counter()
        list(nodes.map(node, range(NODES)))
        return time.perf_counter() - began


def best_makespan(durations: Sequence[int], nodes: int = 3) -> int:
    """The shortest time in which three nodes can do it all: every pair of loads that two of them can have, as bits."""
    if nodes != 3:
        raise ValueError("solved for three nodes only")
    total = sum(durations)
    limit = total - total // 3
    mask = (1 << (limit + 1)) - 1
    reachable = [1] + [0] * limit
    for duration in durations:
        reachable = [
            (loads | (loads << duration) & mask) | (reachable[load - duration] if load >= duration else 0)
            for load, loads in enumerate(reachable)
        ]
    return min(
        max(first, second, total - first - second)
        for first, loads in enumerate(reachable)
        for second in range(limit + 1)
        if loads >> second & 1
    )
