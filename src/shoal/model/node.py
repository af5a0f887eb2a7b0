"""A machine, what a worker needs of one, the place it was given, and how it is made there. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from shoal.units import format_size


class Node(NamedTuple):
    """A machine, or a virtual slice of one."""

    host: str
    cpu: float
    memory_bytes: int
    gpu: int = 0
    labels: Mapping[str, str] = {}
    speed: float = 1.0
    """Relative to a reference machine: 2.0 does the same work in half the time."""
    devices: tuple[str, ...] = ()
    """What its GPUs are called, where that is not 0, 1, 2 and so on."""
    gpu_memory_bytes: int = 0
    """Of one of them; 0 where it is not known."""


class Need(NamedTuple):
    """What one worker asks for."""

    cpu: float = 1.0
    gpu: float = 0
    """Whole GPUs, or below 1 a share of one."""
    memory_bytes: int = 0
    labels: Mapping[str, str] = {}
    node: str | None = None

    @property
    def words(self) -> str:
        """`1 CPU, 2 GPU, 4.0 GiB of memory`: what room it takes."""
        parts = [f"{self.cpu:g} CPU" if self.cpu else "", f"{self.gpu:g} GPU" if self.gpu else ""]
        parts.append(f"{format_size(self.memory_bytes)} of memory" if self.memory_bytes else "")
        return ", ".join(part for part in parts if part)

    def refusal(self, node: Node) -> str | None:
        """Why this need can never fit on that node, or None when it can."""
        if self.node is not None and node.host != self.node:
            return f"{node.host}: is not {self.node}"
        for key, value in self.labels.items():
            if node.labels.get(key) != value:
                return f"{node.host}: label {key} is {node.labels.get(key, 'not set')}, not {value}"
        if self.cpu > node.cpu:
            return f"{node.host}: has {node.cpu:g} CPU, needs {self.cpu:g}"
        if self.gpu > node.gpu:
            return f"{node.host}: has {node.gpu} GPU, needs {self.gpu:g}"
        if self.memory_bytes > node.memory_bytes:
            return f"{node.host}: has {node.memory_bytes >> 20} MiB memory, needs {self.memory_bytes >> 20}"
        return None


Asks: TypeAlias = Sequence[Sequence[Need]]
"""All that a run asks for: groups of needs. Those of a group must fit together, the groups one after the other."""


class Place(NamedTuple):
    """Room for one worker that an engine has set aside. `id` is unique in that engine."""

    id: int
    host: str
    need: Need
    devices: tuple[str, ...] = ()
    """The GPUs that this worker may see: its own, or the one it has a share of. None are named where the system below
    chooses them when the worker starts (Ray)."""
    lent: bool = False
    """Whether others wait for it: to be given back after the time that was asked for, or one item, without a recall."""


class Factory(NamedTuple):
    """`target` is `module:name`; calling it in the worker with `arguments` gives the worker's runner.

    Arguments are JSON values, so that any transport can carry them.
    """

    target: str
    arguments: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    """Environment variables that the worker sets before anything is imported."""
    folder: str = ""
    """Where the worker runs, and what it may import from, after the standard library."""
    blob: str = ""
    """A file of the driver's machine. Its content is one more argument, `blob`, for what is large."""


class Packages(NamedTuple):
    """What pip is to be given: lines of a requirements file without references to other files."""

    lines: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """The lines that name packages; the others are options, which may hold secrets."""
        return tuple(line for line in self.lines if not line.startswith("-"))
