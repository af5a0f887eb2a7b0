"""Who drives a run: a value that is kept in its record and beside its results, and whether that process still lives.

The lock says so where it can be trusted. Where it cannot (another machine, a network disk, a lock that was removed),
this does; and what cannot be seen is unknown, not dead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.errors import RunLocked, TakenOver
from shoal.files.machine import machine_identity, process_start

HEARD_S = 60.0
"""A driver that was heard of within this time, and cannot be seen from here, counts as alive."""
UNDRIVEN = "undriven"
"""A file in the folder of a run that was brought here, and that nobody has driven here since."""
BEAT_S = 10.0
"""How often a driver lets itself be heard of in the record."""


class Driver(NamedTuple):
    """One process that drives a run."""

    host: str
    pid: int
    start: int | None
    machine: str
    token: str
    """Differs for each, whatever else is equal."""

    @classmethod
    def this(cls, token: str = "") -> Driver:
        """The process that asks, at this try to drive."""
        pid = os.getpid()
        return cls(os.uname().nodename, pid, process_start(pid), machine_identity(), token)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Driver | None:
        """What was kept of one; None where there is nothing, or nothing that can be read."""
        try:
            start = document["start"]
            known = str(document["host"]), int(document["pid"]), None if start is None else int(start)
            return cls(*known, str(document["machine"]), str(document["token"]))
        except (KeyError, TypeError, ValueError):
            return None

    def is_alive(self) -> bool | None:
        """Whether that process lives; None where it cannot be seen from here."""
        if self.machine != machine_identity():
            return None
        return self.start is not None and process_start(self.pid) == self.start

    @property
    def words(self) -> str:
        return f"process {self.pid} on {self.host}"


def refuse_the_living(run: str, driver: Driver | None, heard: float | None, now: float) -> None:
    """`RunLocked` where this driver of an unfinished run is alive, or may be: heard of within a minute."""
    if driver is None or (driver.machine == machine_identity() and driver.pid == os.getpid()):
        return
    alive = driver.is_alive()
    ago = None if heard is None else max(0.0, now - heard)
    if alive or (alive is None and ago is not None and ago < HEARD_S):
        said = "" if ago is None else f", heard of {ago:.0f} s ago"
        raise RunLocked(
            f"Run {run!r} is being driven by another process ({driver.words}{said}).",
            hint=f"Wait for it, or end it there. If it is gone for good: shoal resume {run} --take-over",
        )


def taken_over(run: str, number: int, driver: Driver | None) -> TakenOver:
    """The error of a driver that was replaced."""
    by = driver.words if driver is not None else "another process"
    return TakenOver(
        f"Run {run!r} was taken over by {by} (turn {number}): this driver has ended its workers,"
        " and records nothing more.",
        hint=f"Look at the run there: shoal show {run}",
    )
