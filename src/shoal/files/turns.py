"""Turns in a storage: rising numbers, each taken by one driver of a run; and points where tests suspend one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from shoal.errors import NotFound

if TYPE_CHECKING:
    from shoal.files.base import Storage


_wanted, _, _times = os.environ.get("SHOAL_SUSPEND_AT", "").partition(":")
_left = int(_times or 1)


class Turns(NamedTuple):
    """One place where the turns of a run are written down: a key for each, below a prefix. Every call may raise
    what storages raise."""

    storage: Storage
    prefix: str

    def highest(self) -> int:
        """The last turn that somebody took here; 0 where nobody did. One request."""
        names = (entry.key.rpartition("/")[2] for entry in self.storage.list(self.prefix))
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def take(self, number: int, driver: Mapping[str, Any]) -> bool:
        """Write this turn down, with who takes it; whether it was free. `driver` has to differ for each caller.

        `SpecError` on a server where two could take it.
        """
        self.storage.ensure_claims_hold()
        return self.storage.write_new(f"{self.prefix}/{number}", json.dumps(dict(driver)).encode())

    def driver(self, number: int) -> dict[str, Any]:
        """Who took this turn; empty where nobody did, or where that cannot be read."""
        try:
            found = json.loads(self.storage.read(f"{self.prefix}/{number}"))
        except (NotFound, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


class Turn(Protocol):
    """The turn that a driver has at its run."""

    @property
    def number(self) -> int:
        """From 1; every driver of the run has another one."""

    def ensure(self) -> None:
        """Look now, in every place. `TakenOver` where somebody has a later turn; a `FileError` where a place cannot be
        seen. After either, the caller removes and publishes nothing.
        """


class FirstTurn(NamedTuple):
    """The turn of who has no rival: a run that is only simulated, or one that a test makes."""

    number: int = 1

    def ensure(self) -> None:
        """It always is."""


def suspended_at(point: str) -> None:
    """Stop here, if this is the point that was asked for."""
    global _left
    if point == _wanted:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
