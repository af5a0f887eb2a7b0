"""Turns in a storage: each is a number that exactly one caller takes, and whoever had one can tell when it is over.

For writers that may be cut off and come back. It is no lock: who has a later turn does not wait for the earlier ones.
"""

from __future__ import annotations

import os

from shoal.files.base import Storage, joined


def take_turn(storage: Storage, prefix: str) -> int:
    """The next turn below this prefix. Never is a number left out."""
    names = [entry.key.rpartition("/")[2] for entry in storage.list(prefix)]
    number = max((int(name) for name in names if name.isdecimal()), default=0) + 1
    while not storage.write_new(joined(prefix, str(number)), os.urandom(8).hex().encode()):
        number += 1
    return number


def is_over(storage: Storage, prefix: str, number: int) -> bool:
    """Whether somebody took a later turn. One request."""
    return storage.exists(joined(prefix, str(number + 1)))
