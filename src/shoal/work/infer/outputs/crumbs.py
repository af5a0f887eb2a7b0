"""Crumbs: where in an item each attempt is, so that the next one knows which inputs killed the earlier ones."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from shoal.files import Storage
from shoal.work.infer.outputs.layout import HIDDEN, crumb_key, crumb_of


class Crumbs:
    """The crumbs of an output. Each attempt has one, which it moves as it goes on; for careful attempts only."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def suspects(self, seq: int) -> Counter[int]:
        """The positions at which earlier attempts at an item were last seen, and how many at each."""
        found: Counter[int] = Counter()
        for key in self._keys(seq):
            position = _position(self._storage.read(key))
            if position is not None:
                found[position] += 1
        return found

    def at(self, seq: int, attempt: int, position: int) -> None:
        """Say that this attempt begins with this input. Blocks until it would survive the process."""
        self._storage.write(crumb_key(seq, attempt), json.dumps({"position": position}).encode())

    def _keys(self, seq: int) -> list[str]:
        keys = (entry.key for entry in self._storage.list(HIDDEN, f"at-{seq:06d}-*.json"))
        return [key for key in keys if (crumb_of(key) or (None,))[0] == seq]


def _position(data: bytes) -> int | None:
    try:
        document: Any = json.loads(data)
    except ValueError:
        return None
    position = document.get("position") if isinstance(document, dict) else None
    return position if isinstance(position, int) else None
