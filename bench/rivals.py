"""Other frameworks in the benchmark of inference: Ray Data as the group ran it and at its best, Daft, PySpark."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from itertools import product
from shutil import which
from typing import Any, NamedTuple

from ground import Broken, Ground

PILOT_IMAGES = {"large": 64, "small": 1000}
PILOT_FOR_S = 20.0
AS_THE_GROUP_BATCH = 8
START_S = 180.0


class Setting(NamedTuple):
    """Of a rival. The CPUs are shared out evenly among the workers, each of which has a copy of the model."""

    batch: int
    workers: int
    blocks: int | None = None

    def words(self) -> str:
        blocks = "" if self.blocks is None else f", {self.blocks} blocks"
        return f"batch {self.batch}, {self.workers} workers{blocks}"


class Ran(NamedTuple):
    """One run of a rival. `seconds` begin when its first copy of the model is ready, in its favour."""

    what: str
    setting: Setting
    images: int
    seconds: float
    whole_s: float

    @property
    def rate(self) -> float:
        return self.images / self.seconds

    def words(self) -> str:
        return f"{self.rate:.1f}/s ({self.setting.words()}, {self.images} images in {self.seconds:.1f} s)"


PROGRAMS = {"Ray Data": "by_ray_data.py", "Daft": "by_daft.py", "PySpark": "by_spark.py"}


def missing(what: str) -> list[str]:
    """What would have to be installed."""
    needs = {
        "Ray Data": ("torch", "ray", "pandas", "pyarrow", "PIL"),
        "Daft": ("torch", "daft", "pyarrow"),
        "PySpark": ("torch", "pyspark", "pandas", "pyarrow", "PIL"),
    }
    absent = [name for name in needs[what] if find_spec(name) is None]
    return absent + (["java"] if what == "PySpark" and which("java") is None else [])


def run(ground: Ground, what: str, setting: Setting, images: int) -> Ran:
    """One run to its end, with all rows counted."""
    plan = {
        "model": str(ground.model),
        "files": str(ground.files(images)),
        "output": str(ground.scratch("rival")),
        "ready": str(ground.scratch("ready")),
        "images": images,
        "cpus": ground.cpus,
        **setting._asdict(),
    }
    told, _ = ground.program(PROGRAMS[what], plan, limit_s=START_S + 15 * ground.sizes.rival_s)
    if told["rows"] != images:
        raise Broken(f"{what} wrote {told['rows']} rows for {images} images")
    ran = Ran(what, setting, images, told["seconds"], told["whole_s"])
    ground.say(f"{what}: {ran.words()}")
    return ran


def as_the_group(ground: Ground) -> Ran:
    """(b) One actor with all CPUs, batch 8; how finely it reads is left to Ray Data."""
    setting = Setting(AS_THE_GROUP_BATCH, 1)
    pilot = run(ground, "Ray Data", setting, _pilot(ground))
    return _longer(ground, pilot)


def best_ray_data(ground: Ground, group: Ran) -> tuple[Ran, list[Ran]]:
    """(c) The best of a grid over read parallelism, batch and concurrency, run again for longer; and the grid."""
    workers = sorted({1, ground.cpus})
    grid = [
        Setting(batch, count, blocks)
        for blocks, batch, count in product(ground.sizes.ray_blocks, ground.sizes.ray_batches, workers)
    ]
    return _best(ground, "Ray Data", grid, group)


def best_other(ground: Ground) -> tuple[Ran | None, list[Ran]]:
    """(e) The faster of Daft and PySpark, each with its best of a few settings."""
    found: list[Ran] = []
    tried: list[Ran] = []
    for what in ("Daft", "PySpark"):
        absent = missing(what)
        if absent:
            extra = "spark" if what == "PySpark" else "bench"
            ground.say(f"{what} is left out: {', '.join(absent)} not installed; pip install '.[{extra}]'")
            continue
        workers = sorted({1, ground.cpus})
        grid = [Setting(batch, count) for batch, count in product(ground.sizes.rival_batches, workers)]
        try:
            pilot = run(ground, what, grid[0], _pilot(ground))
            best, all_of_it = _best(ground, what, grid, pilot)
        except Broken as broken:
            ground.say(f"{what} is left out: {broken}")
            continue
        found.append(best)
        tried += all_of_it
    return max(found, key=lambda ran: ran.rate, default=None), tried


def _best(ground: Ground, what: str, grid: Iterable[Setting], known: Ran) -> tuple[Ran, list[Ran]]:
    images = _enough(known, 4 * ground.sizes.point_s)
    tried: list[Ran] = []
    for setting in grid:
        try:
            tried.append(run(ground, what, setting, images))
        except Broken as broken:  # A setting that does not work is no reason to give up the others.
            ground.say(f"{what}, {setting.words()}: left out, {broken}")
    if not tried:
        raise Broken(f"{what}: no setting works")
    fastest = max(tried, key=lambda ran: ran.rate)
    again = _longer(ground, fastest)
    return max(again, fastest, key=lambda ran: ran.rate), tried  # In its favour.


def _longer(ground: Ground, known: Ran) -> Ran:
    """The same setting for as long as counts; what already took so long stands."""
    if known.seconds >= ground.sizes.rival_s:
        return known
    return run(ground, known.what, known.setting, _enough(known, ground.sizes.rival_s))


def _pilot(ground: Ground) -> int:
    """How many images show about how fast a rival is; fewer, where all is small."""
    return max(20, int(PILOT_IMAGES[ground.name] * min(1.0, ground.sizes.rival_s / PILOT_FOR_S)))


def _enough(known: Ran, seconds: float) -> int:
    """How many images take about so long; round, so that folders are shared."""
    wanted = known.rate * seconds
    step = 50 if wanted < 1000 else 500
    return max(step, round(wanted / step) * step)


def document(ran: Ran) -> dict[str, Any]:
    return ran._asdict() | {"setting": ran.setting._asdict(), "rate": ran.rate}
