"""This checkout against another one, as ratios: pairs of runs in turn, the median of their ratios, and its interval.

python bench/against.py OTHER [--only a,b,d,e,i,r] [--pairs 15] [--sync-ms 5] [--json]

OTHER is the folder of another checkout, such as `git worktree add ../before COMMIT`; both are run by the interpreter
that runs this. Above 1, this checkout takes longer. With --sync-ms every fsync of both takes so much longer (needs cc).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from workbench import HERE, PYTHON, Workbench

HERE_SOURCE = HERE.parent / "src"
RESAMPLES = 10_000
SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    usleep(MICROSECONDS);
    return real(fd);
}
int fsync(int fd) { return slow("fsync", fd); }
int fdatasync(int fd) { return slow("fdatasync", fd); }
"""


class Sizes(NamedTuple):
    nothing: int = 5000
    waits: int = 200
    many: int = 100_000
    lines: int = 60_000
    on_ray: int = 2000


class Compared(NamedTuple):
    key: str
    what: str
    ratio: float
    low: float
    high: float
    """Of the interval that holds the median of the ratios nineteen times out of twenty."""
    ours_s: float
    others_s: float
    pairs: int

    def words(self) -> str:
        return (
            f"({self.key}) {self.what}: {self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}], "
            f"{self.ours_s:.3f} s against {self.others_s:.3f} s, {self.pairs} pairs"
        )


class Sides:
    """Two checkouts, each with its own environment."""

    def __init__(self, bench: Workbench, other: Path, sync_ms: float) -> None:
        self._bench = bench
        self._more = {"LD_PRELOAD": slow_sync(bench.folder, sync_ms)} if sync_ms else {}
        self.sources = (HERE_SOURCE, other.resolve() / "src")

    def environment(self, source: Path, home: str | None = None) -> dict[str, str]:
        return self._bench.environment(home) | {"PYTHONPATH": str(source)} | self._more

    def drive(self, source: Path, workload: Path) -> float:
        """Seconds from the first trial's start until the last one is durable."""
        program = (
            source.parent / "bench" / "drive.py"
        )  # Its own: modules have other names in other checkouts.
        command = [PYTHON, str(program), str(workload), str(self._bench.folder / "nodes-1.yaml")]
        told = json.loads(self._bench.call(command, workload.parent, self.environment(source)))
        return float(told["last_durable"] - told["first_started"])

    def first_trial(self, source: Path, workload: Path) -> float:
        """Seconds from the command to the first trial."""
        command = [PYTHON, "-m", "shoal", "run", str(workload)]
        environment = self.environment(source, f"home-{source.parent.name}-{workload.parent.name}")
        began = time.time()
        self._bench.call(command, workload.parent, environment)
        mark = workload.parent / "mark.txt"
        seconds = float(mark.read_text()) - began
        mark.unlink()
        return seconds

    def whole(self, source: Path, workload: Path) -> float:
        """Seconds of the whole command, which finds no output of another run to replace."""
        shutil.rmtree(workload.parent / "out", ignore_errors=True)
        command = [PYTHON, "-m", "shoal", "run", str(workload), "--json"]
        began = time.perf_counter()
        self._bench.call(command, workload.parent, self.environment(source))
        return time.perf_counter() - began

    def on_ray(self, source: Path, workload: Path, cluster: Path, count: int) -> float:
        """Seconds from when the workers are up until the last trial is durable."""
        program = source.parent / "bench" / "drive_ray.py"
        command = [PYTHON, "-P", str(program), "warm", str(workload), str(cluster), str(count), "2"]
        told = self._bench.call(command, workload.parent, self.environment(source))
        return float(json.loads(told.splitlines()[-1])["seconds"])


def inference(folder: Path, lines: int) -> Path:
    """A workload over so many lines of text, with a model that does next to nothing, and nothing to tune."""
    folder.mkdir()
    (folder / "lines.txt").write_text("".join(f"{number}\n" for number in range(lines)))
    (folder / "mine.py").write_text(
        "class Model:\n    def __call__(self, batch):\n        return {'n': [len(text) for text in batch]}\n"
    )
    (folder / "infer.yaml").write_text(
        "kind: infer\nname: lines\ninput: {text: lines.txt}\nmodel: {function: 'mine:Model'}\noutput: out/\n"
        "tune: {batch: 64, workers: 2, threads: 1, item: 1000}\n"
    )
    return folder / "infer.yaml"


def slow_sync(folder: Path, sync_ms: float) -> str:
    """A library that makes every sync take longer; its path."""
    source, library = folder / "slow_sync.c", folder / "slow_sync.so"
    source.write_text(SLOW_SYNC.replace("MICROSECONDS", str(int(sync_ms * 1000))))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return str(library)


def compare(
    key: str, what: str, measure: Callable[[Path], float], sources: Sequence[Path], pairs: int
) -> Compared:
    for source in sources:
        measure(source)  # Bytecode and caches of the disk.
    ours, others = [], []
    for pair in range(pairs):
        taken = {source: measure(source) for source in (sources if pair % 2 else reversed(sources))}
        ours.append(taken[sources[0]])
        others.append(taken[sources[1]])
        print(f"({key}) {pair + 1}/{pairs}: {ours[-1] / others[-1]:.3f}", file=sys.stderr, flush=True)
    ratios = [mine / other for mine, other in zip(ours, others, strict=True)]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    low, high = medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
    medians_s = statistics.median(ours), statistics.median(others)
    return Compared(key, what, statistics.median(ratios), low, high, *medians_s, pairs)


def compare_on_ray(
    bench: Workbench, sides: Sides, count: int, rows: Callable[[int], list[tuple[int, float]]], pairs: int
) -> Compared:
    """Each on a Ray cluster of its own: its nodes have the Shoal of that checkout."""
    sys.path.append(sys.path.pop(0))  # Last: what lies beside this program (ray.py) is no package.
    from on_ray import cluster

    workload = bench.workload("on-ray", ("number", "rate"), rows(count), "function: trials:nothing")
    with ExitStack() as clusters:
        files = {}
        for source in sides.sources:
            os.environ["PYTHONPATH"] = str(source)
            made = clusters.enter_context(cluster(bench, [2]))
            files[source] = made.file.rename(bench.folder / f"ray-{len(files)}.yaml")
        return compare(
            "r",
            f"{count} trials that do nothing, on Ray",
            lambda source: sides.on_ray(source, workload, files[source], count),
            sides.sources,
            pairs,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="This checkout against another one, as ratios.")
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--only", default="a,b,d,e", help="which ones, such as a,b; also i, r")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--sync-ms", type=float, default=0.0, help="how much longer every sync takes")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    bench, sizes = Workbench(), Sizes()
    try:
        sides = Sides(bench, arguments.other, arguments.sync_ms)
        columns = ("number", "rate")

        def rows(count: int) -> list[tuple[int, float]]:
            return [(number, number / 8) for number in range(1, count + 1)]

        run = "function: trials:nothing"
        nothing = bench.workload("nothing", columns, rows(sizes.nothing), run)
        waiting = [(50, number) for number in range(1, sizes.waits + 1)]
        waits = bench.workload("waits", ("milliseconds", "number"), waiting, "function: trials:wait")
        first = bench.workload("first", columns, rows(4), "function: trials:mark")
        many = bench.workload("many", columns, rows(sizes.many), run)
        measures: dict[str, tuple[str, Callable[[Path], float]]] = {
            "a": (f"{sizes.nothing} trials that do nothing", lambda source: sides.drive(source, nothing)),
            "b": (f"{sizes.waits} trials of 50 ms, two workers", lambda source: sides.drive(source, waits)),
            "d": ("to the first trial", lambda source: sides.first_trial(source, first)),
            "e": (f"{sizes.many} trials that do nothing", lambda source: sides.drive(source, many)),
        }
        lines = inference(bench.folder / "inference", sizes.lines)
        measures["i"] = (
            f"an inference of {sizes.lines} lines",
            lambda source: sides.whole(source, lines),
        )
        load = os.getloadavg()[0]
        compared = [
            compare(key, *measures[key], sides.sources, arguments.pairs)
            for key in arguments.only.split(",")
            if key != "r"
        ]
        if "r" in arguments.only.split(","):
            compared.append(compare_on_ray(bench, sides, sizes.on_ray, rows, arguments.pairs))
    finally:
        bench.close()
    if arguments.json:
        print(json.dumps({"load": load, "compared": [each._asdict() for each in compared]}, indent=2))
    else:
        print(f"load {load:.2f} before; every sync takes {arguments.sync_ms:g} ms longer")
        print("\n".join(each.words() for each in compared))
    return 0


if __name__ == "__main__":
    sys.exit(main())
