"""Listing of storages that have folders: one folder at a time, entries as they come, only folders that can matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from shoal.files.base import Entry, checked_prefix, joined
from shoal.files.patterns import Pattern


class Child(NamedTuple):
    """Something in a folder: another folder, or a file as `entry`, whose key is not filled in."""

    name: str
    entry: Entry | None


def walk(
    children: Callable[[str], Iterator[Child]], prefix: str, pattern: str | None, *, hidden: bool = False
) -> Iterator[Entry]:
    """The files below a prefix. `children` gives what is in the folder with a key; nothing if it is not there."""
    prefix = checked_prefix(prefix)
    wanted = Pattern(pattern, hidden=hidden)
    folders = [""]
    while folders:
        folder = folders.pop()
        for child in children(joined(prefix, folder)):
            below = joined(folder, child.name)
            if child.entry is not None:
                if wanted.matches(below):
                    yield child.entry._replace(key=joined(prefix, below))
            elif wanted.leads_to(below):
                folders.append(below)
