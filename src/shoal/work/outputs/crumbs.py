"""Crumbs: where in an item each attempt is, so that the next one knows at which inputs the earlier ones ended."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from shoal.files import Storage
from shoal.work.outputs.layout import HIDDEN, crumb_key, crumb_of

NOWHERE = -1
"""The position of an attempt that is at no input: whatever ends it, none is to blame."""


class Ends(NamedTuple):
    """How many attempts ended at an input, and how many of these because it took too long."""

    attempts: int = 0
    timed_out: int = 0


class Crumbs:
    """The crumbs of an output. Each attempt has one, which it moves as it goes on; for careful attempts only."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def suspects(self, seq: int) -> dict[int, Ends]:
        """The positions at which earlier attempts at an item were last seen."""
        found: dict[int, Ends] = {}
        for key in self._keys(seq):
            crumb = _read(self._storage.read(key))
            position = crumb.get("position")
            if isinstance(position, int) and position != NOWHERE:
                attempts, timed_out = found.get(position, Ends())
                found[position] = Ends(attempts + 1, timed_out + (crumb.get("timed_out") is True))
        return found

    def at(self, seq: int, attempt: int, position: int, *, timed_out: bool = False) -> None:
        """Say that this attempt begins with this input, or that it took too long; blocks until that would survive
        the process."""
        crumb = {"position": position, **({"timed_out": True} if timed_out else {})}
        self._storage.write(crumb_key(seq, attempt), json.dumps(crumb).encode())

    def _keys(self, seq: int) -> list[str]:
        keys = (entry.key for entry in self._storage.list(HIDDEN, f"at-{seq:06d}-*.json"))
        return [key for key in keys if (crumb_of(key) or (None,))[0] == seq]


def _read(data: bytes) -> dict[str, Any]:
    """Empty where it is no crumb."""
    try:
        document: Any = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
