"""The packages a workload asks for, as a value that can travel to other machines."""

from __future__ import annotations

from typing import NamedTuple


class Packages(NamedTuple):
    """What pip is to be given: lines of a requirements file without references to other files."""

    lines: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """The lines that name packages; the others are options, which may hold secrets."""
        return tuple(line for line in self.lines if not line.startswith("-"))
