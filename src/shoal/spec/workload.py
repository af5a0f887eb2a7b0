"""What every file and every workload takes: a name, resources, placement, limits, environment, tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from shoal.spec.readers import DURATION, SIZE, ListOf, MapOf, Number, Plain, Text, Whole
from shoal.spec.records import Record
from shoal.spec.requirements import Requirements
from shoal.spec.sections import Found, Section, key, section

NAME = Text(
    "a name of lower-case letters, digits, '.', '_' and '-', at most 63 long", r"[a-z0-9][a-z0-9._-]{0,62}"
)
LABELS = MapOf(Plain(), "a mapping of labels such as {tier: cloud}")


@section
class Resources(Section):
    """What one worker holds while it works."""

    cpu: float = key(Number(above=0), "Processor cores; a fraction is a share of one.", default=1)
    gpu: float = key(Number(least=0), "GPUs; a fraction below 1 is a share of one.", default=0)
    memory_bytes: int | None = key(SIZE, "Memory, such as 4GiB.", name="memory", default=None)

    @classmethod
    def check(cls, found: Found) -> None:
        check_gpus(found)


def check_gpus(found: Found) -> None:
    """Of several GPUs a worker has all, of one it may have a share."""
    gpu = found.values.get("gpu", 0)
    if gpu > 1 and gpu != int(gpu):
        found.problem(f"expected a whole number or a fraction below 1, found {gpu}", "gpu")


@section
class Placement(Section):
    """Where the work may run."""

    labels: Mapping[str, str] = key(LABELS, "Labels that a node must have.", factory=dict)
    near: str | None = key(Text("the name of a location"), "A location to be close to.", default=None)
    node: str | None = key(Text("the host of a node"), "The one node to run on.", default=None)


@section
class Limits(Section):
    """When to stop trying. A kind with other limits has a section of its own."""

    timeout_s: float | None = key(DURATION, "The longest an item may run.", name="timeout", default=None)
    retries: int = key(Whole(0), "How often an item that failed is tried again.", default=0)
    concurrent: int | None = key(Whole(1), "How many items may run at once.", default=None)
    failures: int = key(Whole(0), "How many failed items still make a run that succeeded.", default=0)
    stop_after: int | None = key(Whole(1), "Stop the run early after this many failed items.", default=None)


@section
class Spec(Section):
    """What every file has, and where it came from. Paths in it are relative to `folder`."""

    kind: str
    name: str = key(NAME, "What this is called; without it, the name of the file.", default="")
    folder: str = ""
    source: str = field(default="", repr=False)
    sets: tuple[str, ...] = ()


@section
class Workload(Spec):
    """What every kind of work takes."""

    resources: Resources = key(Record(Resources), "What each worker holds.", factory=Resources)
    placement: Placement = key(Record(Placement), "Where the work may run.", factory=Placement)
    limits: Limits = key(Record(Limits), "When to stop trying.", factory=Limits)
    env: Mapping[str, str] = key(
        MapOf(Plain(), "a mapping of environment variables", names=r"[^=]+"),
        "Environment variables; values are kept as they are written.",
        factory=dict,
    )
    requirements: tuple[str, ...] = key(Requirements(), "Packages to install: a file or a list.", default=())
    image: str | None = key(Text("the name of an image"), "A container image to run in.", default=None)
    tags: tuple[str, ...] = key(ListOf(Plain(), "a list of tags"), "Words to find the run by.", default=())

    at_most_one: ClassVar = ("requirements", "image")
    short_forms: ClassVar = {"near": ("placement", "near")}
