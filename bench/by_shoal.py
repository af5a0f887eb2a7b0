"""Inference with Shoal, through its command line, tuned by itself or pinned; what it wrote is checked row by row."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from statistics import linear_regression
from typing import Any, NamedTuple

from ground import Broken, Ground, powers_of_two
from hand_search import runtimes
from workbench import HERE, PYTHON

AS_GIVEN = {"torch": "as-given"}
"""Names of runtimes that differ from those of the hand-written loop."""
PROBABILITY_TOLERANCE = 2e-3
LABEL_SHARE = 0.999
"""Where two classes are nearly as likely, runtimes may choose differently."""
SETTLED_FROM = 0.5
"""From this share of the run on, tuning is taken to be over."""
FEWEST_PARTS = 6
FINALISTS = 3


class Point(NamedTuple):
    """All that is tuned."""

    runtime: str
    workers: int
    threads: int
    batch: int

    def words(self) -> str:
        return f"{self.runtime}, {self.workers} workers x {self.threads} threads, batch {self.batch}"


class Ran(NamedTuple):
    """One run. `seconds` are the whole wall time of the command, starting and tuning included."""

    images: int
    seconds: float
    settled_rate: float
    """Images a second in the later part of the run, by when its parts were complete."""
    point: Point | None
    """What it was pinned to, or what it chose; None when it did not say."""
    output: Path

    @property
    def rate(self) -> float:
        return self.images / self.seconds

    def words(self) -> str:
        return f"{self.rate:.1f}/s, {self.settled_rate:.1f}/s later on ({self.images} images in {self.seconds:.1f} s)"


def run(
    ground: Ground, files: Path, images: int, pinned: Point | None = None, item: int | None = None
) -> Ran:
    """One run to its end, in a home of its own: nothing that an earlier run learned is known to it."""
    import yaml

    folder = ground.scratch("shoal")
    folder.mkdir()
    tune: Any = "auto" if pinned is None else pinned._asdict()
    if item is not None:
        tune = ({} if tune == "auto" else tune) | {"item": item}
    workload = {
        "kind": "infer",
        "name": f"bench-{ground.name}",
        "input": {"images": str(files)},
        "model": {"torchscript": str(ground.model.with_suffix(".pt")), "device": "cpu"},
        "preprocess": {"image": {"size": 224, "mode": "RGB", "normalize": "imagenet"}},
        "postprocess": {"softmax": True},
        "output": "output",
        "tune": tune,
    }
    file = folder / "infer.yaml"
    file.write_text(yaml.safe_dump(workload, sort_keys=False))
    environment = ground.bench.environment(f"{folder.name}/home") | {"PYTHONPATH": str(HERE.parent / "src")}
    child = ground.call(
        [PYTHON, "-P", "-m", "shoal", "run", str(file), "--json"],
        limit_s=20 * ground.sizes.seconds + 600,
        environment=environment,
    )
    told = json.loads(child.output)
    if told["state"] != "succeeded":
        raise Broken(f"the run ended as {told['state']}: {child.output}")
    ran = Ran(
        images,
        child.seconds,
        settled_rate(folder / "output", images / child.seconds),
        pinned or _chosen(told),
        folder / "output",
    )
    ground.say(f"Shoal, {'tune: auto' if pinned is None else pinned.words()}: {ran.words()}")
    return ran


def settled_rate(output: Path, otherwise: float) -> float:
    """How fast rows became complete in the later part of a run: the slope of a line through its parts."""
    from pyarrow import parquet

    parts = sorted(
        (path.stat().st_mtime, parquet.ParquetFile(path).metadata.num_rows)
        for path in output.glob("part-*.parquet")
    )
    rows, times, totals = 0, [], []
    for when, count in parts:
        rows += count
        times.append(when - parts[0][0])
        totals.append(rows)
    later = [number for number, when in enumerate(times) if when >= SETTLED_FROM * times[-1]]
    if len(later) < FEWEST_PARTS:
        return otherwise
    return linear_regression([times[n] for n in later], [totals[n] for n in later]).slope


def _chosen(told: dict[str, Any]) -> Point | None:
    """The point that a run chose by itself, from the decisions that it printed; None when one is not there."""
    made = {decision["name"]: decision["choice"] for decision in told.get("infer", {}).get("decisions", ())}
    if not {"runtime", "workers", "threads", "batch"} <= made.keys():
        return None
    return Point(made["runtime"], *(int(made[name]) for name in ("workers", "threads", "batch")))


def check(ran: Ran, by_hand: Path) -> str:
    """Each image once, with the same class as the hand-written loop found, and nearly the same probability."""
    ours, theirs = _predictions(ran.output), _predictions(by_hand)
    if len(ours) != ran.images or ours.keys() != theirs.keys():
        raise Broken(f"Shoal wrote {len(ours)} different rows for {ran.images} images")
    same = [name for name, (label, _) in ours.items() if str(label) == str(theirs[name][0])]
    apart = max((abs(ours[name][1] - theirs[name][1]) for name in same), default=1.0)
    if len(same) < LABEL_SHARE * len(ours) or apart > PROBABILITY_TOLERANCE:
        raise Broken(
            f"only {len(same)} of {len(ours)} classes are the same, probabilities differ by {apart:.2g}"
        )
    return f"{len(same)} of {len(ours)} classes the same, probabilities within {apart:.1g}"


def _predictions(folder: Path) -> dict[str, tuple[Any, float]]:
    """Class and probability by the name of the file; the same file twice is an error."""
    from pyarrow import parquet

    found: dict[str, tuple[Any, float]] = {}
    for part in sorted(folder.glob("part-*.parquet")):
        table = parquet.read_table(part, columns=["path", "label", "prob"])
        columns = (table[name].to_pylist() for name in ("path", "label", "prob"))
        for path, label, prob in zip(*columns, strict=True):
            name = path.rsplit("/", 1)[-1]
            if name in found:
                raise Broken(f"{path} is there twice")
            found[name] = (label, prob)
    return found


def grid(ground: Ground) -> list[Point]:
    """Every point that the benchmark tries; more threads than cores are left out."""
    counts = powers_of_two(ground.cpus)
    names = [AS_GIVEN.get(name, name) for name in runtimes(ground)]
    return [
        Point(runtime, workers, threads, batch)
        for runtime, workers, threads, batch in product(names, counts, counts, ground.sizes.batches)
        if workers * threads <= ground.cpus
    ]


def best_of_grid(ground: Ground, rate: float) -> tuple[Point, list[tuple[Point, float]]]:
    """(f) The point that is fastest when it is pinned, and all that were tried. `rate` is about what to expect."""
    tried = _measured(ground, grid(ground), rate, 2 * ground.sizes.point_s)
    if not tried:
        raise Broken("no pinned run succeeded")
    best = [point for point, _ in sorted(tried, key=lambda entry: entry[1], reverse=True)]
    again = _measured(ground, best[:FINALISTS], rate, ground.sizes.finalist_s)
    return max(again, key=lambda entry: entry[1])[0], tried


def _measured(ground: Ground, points: list[Point], rate: float, seconds: float) -> list[tuple[Point, float]]:
    found = []
    for point in points:
        # Items fine enough, and enough of them, to see how fast parts come in the later half.
        images = max(100, int(rate * seconds), 3 * FEWEST_PARTS * point.batch)
        item = max(1, images // 40, point.batch)
        try:
            ran = run(ground, ground.files(images), images, point, item=item)
        except Broken as broken:
            ground.say(f"Shoal, {point.words()}: left out, {broken}")
            continue
        found.append((point, ran.settled_rate))
    return found
