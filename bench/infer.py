"""The benchmark of inference, as ratios measured in one run on one machine. Exit code 0 unless something broke.

python bench/infer.py [--model large|small|both] [--only a,c] [--seconds 120] [--images N] [--quick] [--json FILE]

(a) Shoal with `tune: auto` against the best hand-written loop; (b) against Ray Data as the group ran it; (c) against
the best setting of Ray Data; (d) what tuning costs; (e) against Daft or PySpark; (f) what it chose against a full grid.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(
        sys.path.pop(0)
    )  # ray.py, beside this file, must not stand where others look for the package.

from contest import Contest, measure
from figures import Figure, table
from ground import QUICK, Broken, Ground, Sizes
from workbench import Workbench

KEYS = "abcdef"
MODELS = ("large", "small")
NEEDED = ("numpy", "PIL", "torch", "onnx", "pyarrow")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The benchmark of inference, as ratios on this machine.")
    parser.add_argument("--model", choices=[*MODELS, "both"], help="which model (both; small with --quick)")
    parser.add_argument("--only", default=",".join(KEYS), help="which ones, such as a,c")
    parser.add_argument("--seconds", type=float, help="what the hand-written loop takes at least (120)")
    parser.add_argument("--point-seconds", type=float, help="for each point of a grid (5)")
    parser.add_argument("--images", type=int, help="how many images, instead of as many as take --seconds")
    parser.add_argument("--repeat", type=int, default=1, help="runs on the whole set: the median counts (1)")
    parser.add_argument("--hand", help="runtime,processes,threads,batch of the hand-written loop: no search")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: to see that it works, not how fast"
    )
    parser.add_argument("--json", metavar="FILE", help="write one JSON document; - is standard output")
    parser.add_argument("--cache", type=Path, help="keeps pictures and models for the next time")
    parser.add_argument("--folder", help="where runs are kept meanwhile; must be on the disk to be measured")
    arguments = parser.parse_args()
    arguments.only = [key.strip() for key in arguments.only.split(",") if key.strip()]
    unknown = sorted(set(arguments.only) - set(KEYS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(KEYS)}")
    if arguments.hand and len(arguments.hand.split(",")) != 4:
        parser.error(
            f"--hand is runtime,processes,threads,batch, such as onnxruntime,2,1,8; got {arguments.hand}"
        )
    arguments.model = arguments.model or ("small" if arguments.quick else "both")
    return arguments


def _sizes(arguments: argparse.Namespace) -> Sizes:
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.seconds is not None:
        sizes = sizes._replace(seconds=arguments.seconds)
    if arguments.point_seconds is not None:
        sizes = sizes._replace(point_s=arguments.point_seconds)
    return sizes


def main() -> int:
    arguments = _arguments()
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        print(f"Left out: all of it, as {', '.join(absent)} is not installed; pip install '.[test-all]'")
        return 0
    cpus = len(os.sched_getaffinity(0))
    surroundings: dict[str, Any] = {
        "python": platform.python_version(),
        "cpus": cpus,
        "load": round(os.getloadavg()[0], 2),
        "quick": arguments.quick,
    }
    figures: list[Figure] = []
    broken: list[str] = []
    details: dict[str, Any] = {}
    bench = Workbench(arguments.folder)
    try:
        for name in MODELS if arguments.model == "both" else [arguments.model]:
            cache = (arguments.cache or bench.folder / "cache").resolve()
            ground = Ground(bench, cache, name, _sizes(arguments), cpus)
            ground.prepare()
            contest = Contest(ground, arguments)
            for found in measure(contest, arguments.only):
                if isinstance(found, Broken):
                    broken.append(f"{name}: {found}")
                else:
                    figures.append(found.without_target() if arguments.quick else found)
            details[name] = contest.details
    finally:
        bench.close()
    surroundings["load_after"] = round(os.getloadavg()[0], 2)
    _print(arguments, surroundings, figures, broken, details)
    return 1 if broken else 0


def _print(
    arguments: argparse.Namespace,
    surroundings: dict[str, Any],
    figures: list[Figure],
    broken: list[str],
    details: dict[str, Any],
) -> None:
    document = {
        "surroundings": surroundings,
        "figures": [figure.document() for figure in figures],
        "broken": broken,
        "details": details,
    }
    if arguments.json == "-":
        print(json.dumps(document, indent=2))
        return
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")
    print(
        f"Python {surroundings['python']}, {surroundings['cpus']} CPUs, load {surroundings['load']} before and"
        f" {surroundings['load_after']} after."
    )
    if arguments.quick:
        print("Sizes are small (--quick): these figures say that it works, not how fast.")
    print()
    print(table(figures))


if __name__ == "__main__":
    sys.exit(main())
