"""Patterns of keys (`*`, `?`, `[...]`, `**`), and the folders of a storage that can hold a match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from shoal.files.base import Entry, checked_prefix, joined

_MAGIC = frozenset("*?[")


class Pattern:
    """A pattern for keys below some folder. A name that starts with a dot fits only where the pattern has the dot, or
    with `hidden`."""

    def __init__(self, text: str | None, *, hidden: bool = False) -> None:
        self._hidden = hidden
        parts = ["**"] if text is None else text.split("/")
        self._parts = tuple(
            part for index, part in enumerate(parts) if part != "**" or parts[:index][-1:] != ["**"]
        )

    def matches(self, key: str) -> bool:
        """Whether the whole key fits."""
        return _fits(key.split("/"), self._parts, self._hidden, whole=True)

    def leads_to(self, folder: str) -> bool:
        """Whether a key below this folder could fit; what cannot is not looked into."""
        return _fits(folder.split("/"), self._parts, self._hidden, whole=False)


def has_magic(text: str) -> bool:
    """Whether this is a pattern, not a name."""
    return not _MAGIC.isdisjoint(text)


def split(path: str) -> tuple[str, str]:
    """A path with a pattern in it, as the folder before the pattern and the pattern."""
    parts = path.split("/")
    first = next(index for index, part in enumerate(parts) if has_magic(part))
    return "/".join(parts[:first]) or path[: 1 if path.startswith("/") else 0], "/".join(parts[first:])


def _fits(names: Sequence[str], parts: Sequence[str], hidden: bool, whole: bool) -> bool:
    if not names:
        return not whole or all(part == "**" for part in parts)
    if not parts:
        return False
    name, part = names[0], parts[0]
    shows = hidden or not name.startswith(".")
    if part == "**":
        return _fits(names, parts[1:], hidden, whole) or (shows and _fits(names[1:], parts, hidden, whole))
    if not shows and not part.startswith("."):
        return False
    return (
        fnmatchcase(name, part) and (whole or len(parts) > 1) and _fits(names[1:], parts[1:], hidden, whole)
    )


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
