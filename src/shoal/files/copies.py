"""Copying files and folders from storage to storage, so that it can be started again: what is there is not copied.

A folder that changes all the time, and is copied again and again, is for `mirror`.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal.errors import FileError, NotFound, ShoalError, SpecError, Unreachable
from shoal.files.addresses import find, is_among, is_url, open_storage
from shoal.files.base import PIECE_BYTES, Entry, Storage, joined
from shoal.files.local import LocalStorage, receiving

AT_ONCE = 8
LONGEST_END_S = 5.0
"""How long threads are waited for when a copy is ended before it is complete: a server may not answer for minutes."""
Failure = tuple[str, str]
"""A file that could not be copied, and why."""
_WEB = ("http://", "https://")


class Copy(NamedTuple):
    """One file to be copied, and the key that it gets."""

    source: Storage
    entry: Entry
    key: str

    @property
    def path(self) -> str:
        """The file as a person would write it."""
        return joined(self.source.url, self.entry.key)


class Copied(NamedTuple):
    """How far it is, or what came of it. Bytes are of files, also of those that were there."""

    files: int
    bytes: int
    copied: int = 0
    skipped: int = 0
    """Files that were there already."""
    moved_bytes: int = 0
    """Of files that are copied, and of the parts of those that are being copied, as far as that can be seen."""
    failed: tuple[Failure, ...] = ()


def planned(
    sources: Sequence[str], to: str, *, folder: str = ".", endpoint: str | None = None
) -> tuple[Storage, list[Copy]]:
    """The storage to copy to, and all files that are meant. Writes nothing.

    What is in a folder, or matches a pattern, gets the same relative path below `to`. One single file gets the name
    `to`, unless that is a folder or ends with a slash.
    """
    if to.lower().startswith(_WEB):
        raise SpecError(f"{to} cannot be written.", hint="Copy to a folder, s3:// or hdfs://.")
    if endpoint is not None and not any(each.startswith("s3://") for each in (*sources, to)):
        raise SpecError("An endpoint is for s3://, and nothing here is.", hint="Leave it out.")
    copies, is_file = list[Copy](), False
    for source in sources:
        storage, entries = find(source, folder=folder, endpoint=_for_s3(source, endpoint))
        found = [Copy(storage, entry, entry.key) for entry in entries]
        is_file = len(found) == 1 and _names_it(source, found[0], folder)
        copies += found
    if len(sources) == 1 and is_file and not _is_folder(to, folder):
        to, _, name = to.rpartition("/") if "/" in to else (".", "", to)
        copies = [copies[0]._replace(key=name)]
        to = to or "/"
    target = open_storage(to, folder=folder, endpoint=_for_s3(to, endpoint))
    _check(sources, target, copies, folder)
    return target, copies


def _for_s3(url: str, endpoint: str | None) -> str | None:
    return endpoint if url.startswith("s3://") else None


def _names_it(source: str, found: Copy, folder: str) -> bool:
    """Whether a source is this file, not a folder or a pattern in which there is one."""
    path = source if is_url(source) else os.path.abspath(os.path.join(folder, source))
    return path in (found.path, f"file://{found.path}") or source.lower().startswith(_WEB)


def _is_folder(to: str, folder: str) -> bool:
    if to.endswith("/") or (is_url(to) and to.count("/") < 3):
        return True
    return not is_url(to) and os.path.isdir(os.path.join(folder, to))


def _check(sources: Sequence[str], target: Storage, copies: Sequence[Copy], folder: str) -> None:
    twice = [key for key, count in Counter(copy.key for copy in copies).items() if count > 1]
    if twice:
        raise SpecError(
            f"{len(twice)} of the files would be written twice, such as {twice[0]}.",
            hint="Copy them one after the other, to folders of their own.",
        )
    for source in sources:
        if is_among(source, target.url, copies[0].key, folder=folder):
            raise SpecError(
                f"{target.url} is in {source}: the next copy would copy the copies.",
                hint="Copy to a folder beside it.",
            )


class Copying:
    """Copies files, several at a time."""

    def __init__(self, target: Storage, copies: Sequence[Copy]) -> None:
        self._target = target
        self._left = iter(copies)
        self._lock = threading.Lock()
        self._has_ended, self._has_news = threading.Event(), threading.Event()
        self._working = AT_ONCE
        """Threads that have not come to their end."""
        self._error: BaseException | None = None
        self._so_far = Copied(len(copies), sum(each.entry.size_bytes for each in copies))

    def run(self, tell: Callable[[Copied], None], every_s: float) -> Copied:
        """Copy everything. Files are whole, or as they were before. `tell` is called in the thread of the caller.

        A file that cannot be copied stops no other. A storage that is `Unreachable` does, and that is raised.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(AT_ONCE)]
        try:
            for thread in threads:
                thread.start()
            while self._working and self._error is None:
                if self._has_news.wait(every_s):
                    self._has_news.clear()
                else:
                    tell(self._so_far)
        finally:
            self._has_ended.set()
            until = time.monotonic() + LONGEST_END_S
            for thread in threads:
                if thread.is_alive():
                    thread.join(max(0.0, until - time.monotonic()))
        if self._error is not None:
            raise self._error
        return self._so_far

    def _work(self) -> None:
        try:
            while not self._has_ended.is_set() and (copy := self._next()) is not None:
                try:
                    is_new = self._copy(copy)
                except Unreachable:
                    raise
                except (
                    ShoalError,
                    OSError,
                    ValueError,
                ) as error:  # The last one: a name that cannot be spelt.
                    self._note(failed=[(copy.path, str(error))])
                else:
                    self._note(copied=is_new, skipped=not is_new)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
            self._error = error
        finally:
            with self._lock:
                self._working -= 1
            self._has_news.set()

    def _copy(self, copy: Copy) -> bool:
        """Whether it had to be copied."""
        source, entry, key = copy
        if _is_there(self._target, key, entry):
            return False
        if not is_url(self._target.url):
            self._fetch(source, entry.key, LocalStorage(self._target.url).path_for_writing(key))
        elif not is_url(source.url):
            self._target.write(key, Path(source.url, entry.key))
            self._moved(entry.size_bytes)
        elif entry.size_bytes <= PIECE_BYTES:
            self._target.write(key, data := source.read(entry.key))
            self._moved(len(data))
        else:
            with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
                path = Path(folder, "file")
                self._fetch(source, entry.key, str(path))
                self._target.write(key, path)
        if not is_url(source.url) and source.stat(entry.key) != entry:
            raise FileError("It changed while it was copied.")
        return True

    def _fetch(self, source: Storage, key: str, path: str) -> None:
        with source.open(key) as file, receiving(path) as target:
            while piece := file.read(PIECE_BYTES):
                if self._has_ended.is_set():
                    raise FileError("The copy was ended.")
                target.write(piece)
                self._moved(len(piece))

    # What threads share.

    def _next(self) -> Copy | None:
        with self._lock:
            return next(self._left, None)

    def _moved(self, size: int) -> None:
        with self._lock:
            self._so_far = self._so_far._replace(moved_bytes=self._so_far.moved_bytes + size)

    def _note(self, *, copied: bool = False, skipped: bool = False, failed: Sequence[Failure] = ()) -> None:
        with self._lock:
            now = self._so_far
            self._so_far = now._replace(
                copied=now.copied + copied, skipped=now.skipped + skipped, failed=(*now.failed, *failed)
            )


def _is_there(target: Storage, key: str, entry: Entry) -> bool:
    """Whether what is to be copied is there: with the same etag, or of the same size and not older.

    Times are compared by whole seconds: some storages know no more.
    """
    try:
        there = target.stat(key)
    except NotFound:
        return False
    if there.etag is not None and there.etag == entry.etag:
        return True
    if there.modified_s is not None and entry.modified_s is not None:
        return there.size_bytes == entry.size_bytes and there.modified_s >= int(entry.modified_s)
    return there.size_bytes == entry.size_bytes
