"""How a worker goes about its inputs, and what was measured of it: the words between a tuner and the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

AS_GIVEN = "as-given"
"""The runtime that every model has: what its file was made for."""

LEAST_AT_A_GPU = 32
"""With smaller batches most of a GPU is idle: where memory does not suffice for them, fewer workers are better."""


class Setting(NamedTuple):
    """What a worker can be told to do differently."""

    runtime: str
    """What runs the model: `as-given`, `frozen`, `onnxruntime`, `openvino`."""
    batch: int
    """Inputs that the model gets at once."""
    threads: int
    """Threads of the worker."""


class Step(NamedTuple):
    """A part of an item: so many inputs are done in this way. `rows` 0 means all that are left."""

    setting: Setting
    rows: int = 0


class Advice(NamedTuple):
    """What travels with an item that is handed out, and is not recorded: how to go about it.

    The steps are gone through in order, on the item's own inputs; when they are over, the last one goes on. A worker
    that runs out of inputs leaves out the rest.
    """

    steps: tuple[Step, ...]
    workers: int = 1
    """How many workers of the node are given items meanwhile."""
    meant: int = 1
    """How many it is meant to have, once all have started: so many will hold the model."""
    sharing: int = 1
    """How many of them share a GPU, where there are any."""

    def plain(self) -> list[Any]:
        """As JSON values."""
        steps = [[*step.setting, step.rows] for step in self.steps]
        return [self.workers, self.meant, self.sharing, steps]

    @classmethod
    def read(cls, values: Sequence[Any]) -> Advice:
        """From `plain`."""
        workers, meant, sharing, steps = values
        return cls(tuple(Step(Setting(*step[:3]), step[3]) for step in steps), workers, meant, sharing)


class Measured(NamedTuple):
    """What a worker saw of one setting within one item, warm-up left out."""

    setting: Setting
    workers: int
    """How many workers of the node were given items meanwhile."""
    rows: int
    seconds: float
    """Wall time of these rows from beginning to end: reading, preparing, predicting."""
    predict_s: float
    """How much of it the model took."""
    memory_bytes: int = 0
    """The most that the worker's process held."""
    device_bytes: int = 0
    """The most that it held on its GPU."""

    @property
    def rate(self) -> float:
        """Inputs a second of this one worker."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


class Heard(NamedTuple):
    """All that a worker tells a tuner with the end of an item."""

    measured: tuple[Measured, ...] = ()
    load_s: Mapping[str, float] = {}
    """Runtimes that were loaded during the item, and the seconds that took: conversion, compilation, warm-up."""
    differences: Mapping[str, float] = {}
    """Runtimes that were compared with the model as given, and the largest difference of any output."""
    unusable: Mapping[str, str] = {}
    """Runtimes that cannot run this model, or do not agree, and why."""
    out_of_memory: tuple[Setting, ...] = ()
    """Settings under which memory ran out; the worker went on with half the batch. Where others share a GPU only the
    first: what is left there for a moment says nothing."""
    fixed_rows: int = 0
    """How many inputs the model takes at once, no more and no fewer: others are filled up. 0 where any number does."""

    def plain(self) -> dict[str, Any]:
        """As JSON values; empty parts are left out."""
        document: dict[str, Any] = {
            "measured": [[*entry.setting, *entry[1:]] for entry in self.measured],
            "load_s": dict(self.load_s),
            "differences": dict(self.differences),
            "unusable": dict(self.unusable),
            "out_of_memory": [list(setting) for setting in self.out_of_memory],
            "fixed_rows": self.fixed_rows,
        }
        return {name: value for name, value in document.items() if value}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Heard:
        """From `plain`."""
        return cls(
            tuple(Measured(Setting(*entry[:3]), *entry[3:]) for entry in document.get("measured", ())),
            document.get("load_s", {}),
            document.get("differences", {}),
            document.get("unusable", {}),
            tuple(Setting(*setting) for setting in document.get("out_of_memory", ())),
            int(document.get("fixed_rows", 0)),
        )


class Machine(NamedTuple):
    """What of a node matters for tuning; nodes with equal ones share a tuner."""

    cpu: int
    """Whole cores that all workers of this run together may have there: each holds one, or more."""
    memory_bytes: int
    gpu: int = 0
    gpu_memory_bytes: int = 0
    """Of one of its GPUs; 0 where it is not known."""
    places: int = 0
    """How many workers there can be, where each of them holds several cores, or a GPU; 0 means one for each core."""

    @property
    def most_workers(self) -> int:
        """As many as have a place and a core."""
        cores = max(1, self.cpu)
        return min(cores, self.places) if self.places > 0 else cores

    @property
    def kind(self) -> str:
        """Its name in profiles."""
        of_gpu = f"{self.gpu_memory_bytes >> 30}gib" if self.gpu_memory_bytes else ""
        gpus = f"-{self.gpu}gpu{of_gpu}" if self.gpu else ""
        places = f"-{self.most_workers}places" if self.most_workers < self.cpu else ""
        return f"{self.cpu}cpu-{self.memory_bytes >> 30}gib{gpus}{places}"


class Space(NamedTuple):
    """What a tuner may choose. What is given for `batch`, `threads` and `workers` stays as it is."""

    runtimes: tuple[str, ...]
    """Those that are installed, `as-given` first; a single one is not varied."""
    machine: Machine
    batch: int | None = None
    threads: int | None = None
    workers: int | None = None
    """May be more than there are cores, where somebody wishes so."""
    largest_batch: int = 1024
    largest_item: int = 4096
