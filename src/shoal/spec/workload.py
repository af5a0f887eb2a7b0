"""What every file and every workload takes: a name, resources, placement, limits, environment, tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from shoal.spec.nodes import Node, Problems
from shoal.spec.readers import DURATION, SIZE, ListOf, MapOf, Number, Plain, Text, Whole
from shoal.spec.sections import INVALID, Found, Reader, Record, Section, field, key, section

_CREDENTIALS = re.compile(r"://[^/\s]*@")


def requirement_problem(text: str) -> tuple[str, str | None] | None:
    """What is wrong with one package as `pip install` would be given it, and a hint; None when nothing is."""
    from packaging.requirements import InvalidRequirement, Requirement

    if text.lstrip().startswith("-"):
        return "expected a package such as numpy>=1.26, found an option", _IN_A_FILE
    try:
        Requirement(text)
    except InvalidRequirement as error:
        why = str(error).partition("\n")[0].strip().rstrip(".")
        return f"expected a package such as numpy>=1.26, found {text!r} ({why})", None
    return None


_IN_A_FILE = "Options of pip belong in a requirements file: requirements: requirements.txt"


class _Package(Reader):
    """One package, without options and without passwords: a workload file is copied into every run."""

    expected = "a package such as numpy>=1.26"
    _text = Text(expected, r"[^\r\n]*[^\s][^\r\n]*")

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        text = self._text.read(node, path, problems)
        if text is INVALID:
            return INVALID
        if _CREDENTIALS.search(text):
            hint = "Keep it where pip looks: in pip's configuration, or in .netrc."
            problems.add("a user name or password cannot stand here", node=node, path=path, hint=hint)
            return INVALID
        wrong = requirement_problem(text)
        if wrong is not None:
            problems.add(wrong[0], node=node, path=path, hint=wrong[1])
            return INVALID
        return text.strip()

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\s*[A-Za-z0-9][^\r\n]*$"}


class Requirements(Reader):
    """The lines of a pip requirements file: those listed, or `-r FILE` for a file."""

    expected = "a requirements file or a list of packages"
    _packages = ListOf(_Package(), expected)

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node.value, str):
            return (f"-r {node.value}",) if node.value.strip() else self.wrong(node, path, problems)
        return self._packages.read(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Text().schema(), self._packages.schema()]}


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
    source: str = field(default="", is_shown=False)
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
