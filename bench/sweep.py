"""The benchmarks of sweeps, as ratios measured in one run on one machine. Exit code 0 unless something broke.

python bench/sweep.py [--only a,c] [--quick] [--json] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator

import schedule
import starting
import throughput
from figures import Figure, table
from workbench import Workbench

Benchmark = Callable[[Workbench, bool], Iterator[Figure]]

BENCHMARKS: dict[str, Benchmark] = {
    "a": lambda bench, quick: throughput.against_executor(bench, _throughput(quick)),
    "b": lambda bench, quick: throughput.against_ideal(bench, _throughput(quick)),
    "c": lambda bench, quick: schedule.against_best(bench, schedule.QUICK if quick else schedule.Sizes()),
    "d": lambda bench, quick: starting.against_python(bench, _starting(quick)),
    "e": lambda bench, quick: throughput.many_against_few(bench, _throughput(quick)),
    "f": lambda bench, quick: starting.large_table(bench, _starting(quick)),
}


def _throughput(quick: bool) -> throughput.Sizes:
    return throughput.QUICK if quick else throughput.Sizes()


def _starting(quick: bool) -> starting.Sizes:
    return starting.QUICK if quick else starting.Sizes()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmarks of sweeps, as ratios measured on this machine.")
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


def _surroundings(bench: Workbench) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "sync_ms": round(bench.sync_seconds() * 1000, 2),
        "bytecode": "cached: PYTHONDONTWRITEBYTECODE is removed, and each command is run before it is timed",
    }


def main() -> int:
    arguments = _arguments()
    bench = Workbench(arguments.folder)
    try:
        before = _surroundings(bench)
        figures: list[Figure] = []
        for key in arguments.only:
            print(f"({key}) ...", file=sys.stderr, flush=True)
            found = BENCHMARKS[key](bench, arguments.quick)
            figures += (figure.without_target() for figure in found) if arguments.quick else found
        after = round(os.getloadavg()[0], 2)
    finally:
        bench.close()
    if arguments.json:
        document = {"surroundings": before | {"load_after": after, "quick": arguments.quick}}
        print(json.dumps(document | {"figures": [figure.document() for figure in figures]}, indent=2))
        return 0
    print(
        f"Python {before['python']}, {before['cpus']} CPUs, load {before['load']} before and {after} after, "
        f"a sync takes {before['sync_ms']} ms."
    )
    print(f"Bytecode is {before['bytecode']}.")
    if arguments.quick:
        print(
            "Sizes are small (--quick): these figures say that it works, not how fast, so they have no targets."
        )
    print()
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
