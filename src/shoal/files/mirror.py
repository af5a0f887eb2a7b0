"""Copying a folder to a storage and back, only what changed since the last time. Not for databases that are in use.

What was copied is remembered in a state: a value that the caller keeps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from shoal.errors import FileError, NotFound, ShoalError, Unreachable
from shoal.files.base import Entry, Storage, checked_prefix, joined
from shoal.files.disk import is_aside
from shoal.files.local import LocalStorage
from shoal.files.patterns import Child, walk

T = TypeVar("T")
R = TypeVar("R")
THREADS = 8
FRESH_S = 2.0
"""A file changed so shortly before it was copied is copied once more: clocks of file systems tick coarsely."""


class Mark(NamedTuple):
    """What one file was like when it was copied."""

    size_bytes: int
    version: str


State = Mapping[str, Mark]
"""Keys below the prefix, and what was copied."""


class Mirrored(NamedTuple):
    """What one pass did: the state for the next, and the keys that were copied and removed."""

    state: State
    copied: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """What could not be copied, and why; a key that ends with a slash is a folder that could not be read."""


def mirror_up(
    folder: str | Path,
    storage: Storage,
    prefix: str,
    state: State,
    *,
    exclude: Callable[[str], bool] | None = None,
    remove: bool = False,
) -> Mirrored:
    """Copy the files of a folder to the storage, below a prefix, that are not there as they are.

    Left out are files that are being written, and keys that `exclude` takes. With `remove`, what an earlier pass copied
    and the folder no longer has is removed. A file that cannot be copied stops no other: it is among what `failed`, and
    the next pass tries it again. A storage that is `Unreachable` ends the pass; the state stays the old one.
    """
    prefix, source = checked_prefix(prefix), LocalStorage(os.path.abspath(folder))
    failed: dict[str, str] = {}
    here = {each.key: each for each in _files(source, failed) if _counts(each.key, exclude)}
    unread = tuple(failed)
    changed = [entry for key, entry in here.items() if state.get(key) != _mark(entry)]

    def copy(entry: Entry) -> tuple[str, Mark] | None:
        is_fresh = time.time() - (entry.modified_s or 0) < FRESH_S
        path = Path(source.root, entry.key)
        try:
            storage.write(joined(prefix, entry.key), path)
        except NotFound:
            if os.path.lexists(path):
                raise
            return None  # Gone since it was listed.
        return entry.key, Mark(entry.size_bytes, "fresh") if is_fresh else _mark(entry)

    gone = [key for key in state if key not in here and _counts(key, exclude)] if remove else []
    gone = [key for key in gone if not key.startswith(unread)]
    _each(_contained(lambda key: storage.delete(joined(prefix, key)), str, failed), gone)
    gone = [key for key in gone if key not in failed]
    copied = dict(filter(None, _each(_contained(copy, lambda entry: entry.key, failed), changed)))
    kept = {key: mark for key, mark in state.items() if key not in gone}
    return Mirrored({**kept, **copied}, tuple(copied), tuple(gone), tuple(sorted(failed.items())))


def _files(source: LocalStorage, failed: dict[str, str]) -> Iterator[Entry]:
    """All files of a folder; folders in it that cannot be read are noted."""

    def children(folder: str) -> Iterator[Child]:
        try:
            yield from source.children(folder)
        except FileError as error:
            if not folder:
                raise
            failed[f"{folder}/"] = str(error)

    return walk(children, "", None, hidden=True)


def _contained(
    action: Callable[[T], R], key_of: Callable[[T], str], failed: dict[str, str]
) -> Callable[[T], R | None]:
    """The action, whose errors are noted: they are of one file, unless nothing can be reached."""

    def contained(value: T) -> R | None:
        try:
            return action(value)
        except Unreachable:
            raise
        except (
            ShoalError,
            OSError,
            ValueError,
        ) as error:  # A name that a storage cannot spell is a ValueError.
            failed[key_of(value)] = str(error)
            return None

    return contained


def mirror_down(
    storage: Storage,
    prefix: str,
    folder: str | Path,
    state: State | None = None,
    *,
    exclude: Callable[[str], bool] | None = None,
    remove: bool = False,
) -> Mirrored:
    """Copy what is below a prefix to a folder, except what an earlier pass brought and nobody changed there since.

    With `remove`, what an earlier pass brought and the storage no longer has is removed from the folder.
    """
    prefix, target, state = checked_prefix(prefix), LocalStorage(os.path.abspath(folder)), state or {}
    skipped = len(prefix) + 1 if prefix else 0
    listed = (each._replace(key=each.key[skipped:]) for each in storage.list(prefix, hidden=True))
    there = {each.key: each for each in listed if _counts(each.key, exclude)}
    changed = [
        entry
        for key, entry in there.items()
        if state.get(key) != _mark(entry) or not _is_whole(target, entry)
    ]

    def copy(entry: Entry) -> tuple[str, Mark] | None:
        try:
            storage.download(joined(prefix, entry.key), target.path_for_writing(entry.key))
        except NotFound:  # Gone since it was listed.
            return None
        return entry.key, _mark(entry)

    copied = dict(filter(None, _each(copy, changed)))
    gone = [key for key in state if key not in there and _counts(key, exclude)] if remove else []
    _each(target.delete, gone)
    kept = {key: mark for key, mark in state.items() if key not in gone}
    return Mirrored({**kept, **copied}, tuple(copied), tuple(gone))


def _counts(key: str, exclude: Callable[[str], bool] | None) -> bool:
    if any(is_aside(part) for part in key.split("/")):
        return False
    return exclude is None or not exclude(key)


def _mark(entry: Entry) -> Mark:
    return Mark(entry.size_bytes, entry.etag or str(entry.modified_s))


def _is_whole(folder: LocalStorage, entry: Entry) -> bool:
    try:
        return folder.stat(entry.key).size_bytes == entry.size_bytes
    except NotFound:
        return False


def _each(action: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """The results, several at a time; the first error ends it, and what had not begun is left."""
    with ThreadPoolExecutor(THREADS, "shoal-mirror") as pool:
        try:
            return list(pool.map(action, values))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
