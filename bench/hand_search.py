"""Finds the setting with which the hand-written loop is fastest, and runs it on everything. Knows nothing of Shoal."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ground import Broken, Ground, powers_of_two

NEEDS = {"torch": "torch", "frozen": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}
VARIANTS = {"frozen": (0, 1), "openvino": (0, 1)}
POINT_FILES = 2000
FINALISTS = 2
NEIGHBOURS = 3
MARGIN = 1.15
GROWTHS = 3


class Setting(NamedTuple):
    runtime: str
    processes: int
    threads: int
    batch: int
    decoder: str
    prefetch: int
    """Whether a thread reads and decodes ahead."""
    variant: int = 0
    """Of the runtime's layout: see hand_models.py."""

    def words(self) -> str:
        extra = f"{', decodes ahead' if self.prefetch else ''}{f', variant {self.variant}' if self.variant else ''}"
        return (
            f"{self.runtime}, {self.processes} processes x {self.threads} threads, batch {self.batch},"
            f" {self.decoder}{extra}"
        )


class Whole(NamedTuple):
    """The loop on the whole set. `seconds` are wall time: starting, importing and writing are in it."""

    setting: Setting
    images: int
    seconds: float
    files: Path
    output: Path

    @property
    def rate(self) -> float:
        return self.images / self.seconds


def runtimes(ground: Ground) -> list[str]:
    """Those of the grid that are installed."""
    return [name for name in ground.sizes.runtimes if find_spec(NEEDS[name]) is not None]


def search(ground: Ground) -> dict[Setting, float]:
    """Images a second of every setting that was tried; those tried longer count as they were then, and come first."""
    decoder = _decoder(ground)
    rates: dict[Setting, float] = {}
    for runtime in runtimes(ground):
        for processes, threads in product(powers_of_two(ground.cpus), repeat=2):
            if processes * threads > ground.sizes.crowding * ground.cpus:
                continue
            prefetch = int(processes * threads < ground.cpus)
            group = [
                Setting(runtime, processes, threads, batch, decoder, prefetch)
                for batch in ground.sizes.batches
            ]
            rates |= measure(ground, group, ground.sizes.point_s)
    for setting in _best(rates, NEIGHBOURS):
        for prefetch, variant in product((0, 1), VARIANTS.get(setting.runtime, (0,))):
            neighbour = setting._replace(prefetch=prefetch, variant=variant)
            if neighbour not in rates:
                rates |= measure(ground, [neighbour], ground.sizes.point_s)
    again: dict[Setting, float] = {}
    for setting in _best(rates, FINALISTS):
        again |= measure(ground, [setting], ground.sizes.finalist_s)
    ordered = {setting: again[setting] for setting in _best(again, len(again))}
    return ordered | {setting: rate for setting, rate in rates.items() if setting not in ordered}


def given(ground: Ground, words: str) -> dict[Setting, float]:
    """As `search`, for one setting written as runtime,processes,threads,batch."""
    runtime, *numbers = words.split(",")
    processes, threads, batch = map(int, numbers)
    decoder = "simplejpeg" if find_spec("simplejpeg") else "pillow"
    prefetch = int(processes * threads < ground.cpus)
    setting = Setting(runtime, processes, threads, batch, decoder, prefetch)
    return measure(ground, [setting], ground.sizes.finalist_s)


def measure(ground: Ground, group: list[Setting], seconds: float) -> dict[Setting, float]:
    """Images a second after warm-up, of settings that differ in their batch alone; those that fail are left out."""
    plan = _plan(ground, group[0], ground.files(POINT_FILES)) | {
        "batches": [setting.batch for setting in group],
        "seconds": seconds,
    }
    try:
        told, _ = ground.program("by_hand.py", plan, limit_s=300 + len(group) * (60 + 4 * seconds))
    except Broken as broken:
        ground.say(f"by hand, {group[0].words()}: left out, {broken}")
        return {}
    rates = {setting: told["rates"][str(setting.batch)] for setting in group}
    found = ", ".join(f"{setting.batch}: {rate:.1f}" for setting, rate in rates.items())
    ground.say(f"by hand, {group[0].words()}: images/s by batch {found}")
    return rates


def whole(ground: Ground, setting: Setting, rate: float, images: int | None) -> Whole:
    """All images once. Without a number of them, as many as take long enough."""
    count = images or max(POINT_FILES // 10, int(rate * ground.sizes.seconds * MARGIN))
    for _ in range(GROWTHS):
        ran = once(ground, setting, ground.files(count), count)
        if images is not None or ran.seconds >= ground.sizes.seconds:
            break
        count = int(count * ground.sizes.seconds / ran.seconds * MARGIN)
    return ran


def once(ground: Ground, setting: Setting, files: Path, count: int) -> Whole:
    """All files of a folder, with output."""
    output = ground.scratch("by-hand")
    plan = _plan(ground, setting, files) | {"batches": [setting.batch], "output": str(output)}
    told, seconds = ground.program("by_hand.py", plan, limit_s=20 * ground.sizes.seconds + 600)
    if told["images"] != count:
        raise Broken(f"the hand-written loop did {told['images']} of {count} images")
    ground.say(f"by hand, {setting.words()}: {count} images in {seconds:.1f} s, {count / seconds:.1f}/s")
    return Whole(setting, count, seconds, files, output)


def _decoder(ground: Ground) -> str:
    """The faster one, on one core with the runtime that is fastest anyhow."""
    if find_spec("simplejpeg") is None:
        return "pillow"
    options = [Setting(runtimes(ground)[-1], 1, 1, 1, name, 0) for name in ("pillow", "simplejpeg")]
    rates: dict[Setting, float] = {}
    for option in options:
        rates |= measure(ground, [option], ground.sizes.point_s)
    return max(rates, key=lambda setting: rates[setting], default=options[0]).decoder


def _best(rates: dict[Setting, float], count: int) -> list[Setting]:
    return sorted(rates, key=lambda setting: rates[setting], reverse=True)[:count]


def _plan(ground: Ground, setting: Setting, files: Path) -> dict[str, Any]:
    values = setting._asdict()
    values.pop("batch")
    return values | {"model": str(ground.model), "files": str(files)}
