"""The Ray engine against bare Ray tasks, against the ideal, and against Ray Tune, on clusters of this machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from figures import Figure, table
from workbench import HERE, PYTHON, Spread, Workbench

TUNE_NEEDS = ("pandas", "tensorboardX")


class Sizes(NamedTuple):
    nothing: int = 2000
    nothing_repetitions: int = 5
    waits: int = 300
    wait_repetitions: int = 3
    tuned: int = 40
    tuned_repetitions: int = 1
    ours_repetitions: int = 3


QUICK = Sizes(200, 1, 30, 1, 2, 1, 1)


class Cluster(NamedTuple):
    address: str
    file: Path


@contextmanager
def cluster(bench: Workbench, cpus: Sequence[int]) -> Iterator[Cluster]:
    """A Ray cluster with a node of each so many CPUs, and a head that does no work."""
    from ray.cluster_utils import Cluster as RayCluster

    head = {"num_cpus": 0, "include_dashboard": False, "labels": {"shoal.role": "driver"}}
    made = RayCluster(initialize_head=True, head_node_args=head)
    try:
        for number, count in enumerate(cpus):
            made.add_node(num_cpus=count, labels={"shoal.host": f"node{number}"})
        file = bench.folder / f"ray-{len(cpus)}.yaml"
        file.write_text(f"kind: cluster\nname: bench\nprovider: ray\naddress: '{made.address}'\n")
        yield Cluster(made.address, file)
    finally:
        made.shutdown()


def _drive(bench: Workbench, folder: Path, *arguments: object) -> float:
    """Seconds, as a driver process of its own measured them."""
    # -P: what lies beside the program (ray.py) must not be taken for packages.
    command = [PYTHON, "-P", str(HERE / "drive_ray.py"), *map(str, arguments)]
    told = bench.call(command, folder, bench.environment())
    return float(json.loads(told.splitlines()[-1])["seconds"])


def against_tasks(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(a) Trials that do nothing, recorded durably, against tasks of the same function, recorded nowhere."""
    count = sizes.nothing
    rows = [(number, number / 8) for number in range(1, count + 1)]
    workload = bench.workload("nothing", ("number", "rate"), rows, "function: trials:nothing")
    ours, tasks = [], []
    with cluster(bench, [2]) as made:
        for _ in range(sizes.nothing_repetitions):
            tasks.append(count / _drive(bench, workload.parent, "tasks", made.address, count))
            ours.append(count / _drive(bench, workload.parent, "warm", workload, made.file, count, 2))
    rate, other = Spread.of(ours), Spread.of(tasks)
    yield Figure(
        "a",
        f"{count} no-op trials on warm workers, rate against bare Ray tasks",
        rate.median / other.median,
        at_least=3.0,
        how=f"{rate.words('.0f', '/s')} against {other.words('.0f', '/s')}",
    )


def against_ideal(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(b) Trials of 50 ms on three nodes."""
    rows = [(50, number) for number in range(1, sizes.waits + 1)]
    workload = bench.workload("waits", ("milliseconds", "number"), rows, "function: trials:wait")
    ideal = sizes.waits * 0.05 / 3
    with cluster(bench, [1, 1, 1]) as made:
        seconds = [
            _drive(bench, workload.parent, "warm", workload, made.file, sizes.waits, 3)
            for _ in range(sizes.wait_repetitions)
        ]
    took = Spread.of(seconds)
    yield Figure(
        "b",
        f"{sizes.waits} trials of 50 ms on 3 warm nodes of 1 CPU, against the ideal {ideal:.1f} s",
        took.median / ideal,
        at_most=1.10,
        how=took.words(".3f", " s"),
    )


def against_tune(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(c) A small sweep from nothing: starting workers counts."""
    if any(find_spec(name) is None for name in TUNE_NEEDS):
        print("(c) is left out: Ray Tune is not installed; pip install '.[bench]'", file=sys.stderr)
        return
    count = sizes.tuned
    rows = [(number, number / 8) for number in range(1, count + 1)]
    workload = bench.workload("small", ("number", "rate"), rows, "function: trials:nothing")
    with cluster(bench, [2]) as made:
        ours = Spread.of(
            [
                _drive(bench, workload.parent, "cold", workload, made.file, count)
                for _ in range(sizes.ours_repetitions)
            ]
        )
        theirs = {
            how: Spread.of(
                [
                    _drive(bench, workload.parent, "tune", made.address, count, how, bench.folder / "tune")
                    for _ in range(sizes.tuned_repetitions)
                ]
            )
            for how in ("plain", "reuse_actors")
        }
    for how, target in (("plain", 30.0), ("reuse_actors", 4.0)):
        yield Figure(
            "c",
            f"{count} trivial trials, worker start included, times faster than Ray Tune ({how})",
            theirs[how].median / ours.median,
            at_least=target,
            how=f"{ours.words('.2f', ' s')} against {theirs[how].words('.2f', ' s')}",
        )


BENCHMARKS: dict[str, Callable[[Workbench, Sizes], Iterator[Figure]]] = {
    "a": against_tasks,
    "b": against_ideal,
    "c": against_tune,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmarks of the Ray engine, as ratios on this machine.")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="which ones, such as a,c")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: to see that it works, not how fast"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--folder", help="where runs are kept meanwhile; must be on the disk to be measured")
    arguments = parser.parse_args()
    arguments.only = [key.strip() for key in arguments.only.split(",") if key.strip()]
    unknown = sorted(set(arguments.only) - set(BENCHMARKS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    return arguments


def main() -> int:
    arguments = _arguments()
    bench = Workbench(arguments.folder)
    surroundings: dict[str, Any] = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "quick": arguments.quick,
    }
    figures: list[Figure] = []
    try:
        for key in arguments.only:
            print(f"({key}) ...", file=sys.stderr, flush=True)
            found = BENCHMARKS[key](bench, QUICK if arguments.quick else Sizes())
            figures += (figure.without_target() for figure in found) if arguments.quick else found
    finally:
        bench.close()
    if arguments.json:
        document = {"surroundings": surroundings, "figures": [figure.document() for figure in figures]}
        print(json.dumps(document, indent=2))
        return 0
    print(
        f"Python {surroundings['python']}, {surroundings['cpus']} CPUs, load {surroundings['load']} before."
    )
    if arguments.quick:
        print("Sizes are small (--quick): these figures say that it works, not how fast.")
    print()
    print(table(figures))
    return 0
