"""Where inputs are: the storage, the name by which items know it again, and paths as a person would write them. And
what goes wrong with files there: one that cannot be used is one input, and an error.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from shoal.errors import AccessDenied, FileError, NotFound, ShoalError, SpecError
from shoal.files import Entry, Storage, find, is_url, open_storage
from shoal.spec.shared_sections import Input
from shoal.work.inputs.base import Piece
from shoal.work.protocols import Unreadable

_WEB = ("http://", "https://")
VANISHED = "vanished since it was listed"
CHANGED = "the file was changed since it was listed"
_OF_THE_FILE = frozenset((errno.EIO, errno.ELOOP, errno.ENAMETOOLONG))


class Place(NamedTuple):
    """A storage and its root: a path relative to the folder of the workload file, an absolute one, or a URL."""

    root: str
    storage: Storage

    def path(self, key: str) -> str:
        """The path of a file. Bytes in a name that are no text are written out: a table cannot hold them."""
        if self.root.startswith(_WEB):
            return f"{self.storage.url}/{quote(key)}"
        path = f"{self.root}/{key}" if is_url(self.root) else os.path.join(self.root, key)
        return text_of(path.removeprefix("./"))


class Places:
    """Storages by their roots, each made once. Safe for several threads."""

    def __init__(self, folder: str, endpoint: str | None) -> None:
        self._folder, self._endpoint = folder, endpoint
        self._made: dict[str, Place] = {}
        self._lock = threading.Lock()

    def at(self, root: str) -> Place:
        """The place with this root."""
        with self._lock:
            if root not in self._made:
                storage = open_storage(root, folder=self._folder, endpoint=self._endpoint)
                self._made[root] = Place(root, storage)
            return self._made[root]


def check_address(input_: Input, folder: str) -> None:
    """Raise `SpecError` for an address that can name nothing. Connects to nobody."""
    open_storage(input_.target, folder=folder, endpoint=input_.endpoint)


def found_at(input_: Input, folder: str) -> tuple[Place, Iterator[Entry]]:
    """The place that is meant, and the files there as they are found."""
    return files_at(input_.target, folder, input_.endpoint)


def files_at(target: str, folder: str, endpoint: str | None) -> tuple[Place, Iterator[Entry]]:
    """The place that a path, a pattern or a URL means, and the files there as they are found."""
    storage, entries = find(target, folder=folder, endpoint=endpoint)
    return Place(_root(target, folder, storage), storage), entries


def _root(target: str, folder: str, storage: Storage) -> str:
    if target.lower().startswith(_WEB):
        path, mark, query = target.partition("?")
        return path.rpartition("/")[0] + mark + query
    if is_url(target) or os.path.isabs(target):
        return storage.url
    return os.path.relpath(storage.url, os.path.abspath(folder))


def place_of_row(place: Place, params: Mapping[str, Any], position: int) -> str:
    """Where a row of an item is: its file, and the row in it where the file could be read at all."""
    path = place.path(params["file"])
    return path if "broken" in params else f"row {params['start'] + position} of {path}"


def partitions(path: str) -> Mapping[str, str]:
    """The columns that stand in the names of a file's folders, as Hive writes them: `year=2024/month=5/`."""
    folders = [each.partition("=") for each in path.split("/")[:-1]]
    return {unquote(name): unquote(value) for name, equals, value in folders if equals and name}


def mark_of(entry: Entry) -> str:
    """A short text that is another one when the file is another one."""
    stamp = entry.etag if entry.etag is not None else repr(entry.modified_s)
    return blake2b(f"{entry.size_bytes} {stamp}".encode(), digest_size=6).hexdigest()


def digest_of(input_: Input, folder: str) -> str:
    """Another one where a file of the input is another one, in whatever order they come. Lists them all."""
    total = 0
    for entry in found_at(input_, folder)[1]:
        text = f"{entry.key} {mark_of(entry)}".encode("utf-8", "surrogateescape")
        total += int.from_bytes(blake2b(text, digest_size=8).digest())
    return f"{total % 2**64:016x}"


def text_of(name: str) -> str:
    """This text, with what cannot be encoded written out."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace") if _is_name(name) else ascii(name)[1:-1]
    return name


def _is_name(name: str) -> bool:
    """Whether it could be the name of a file with bytes that are no text."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def blamed() -> Iterator[None]:
    """Errors of a file become `Unreadable`. What is wrong with a storage, or with who we are to it, stays an error."""
    try:
        yield
    except NotFound as error:
        raise Unreadable(VANISHED) from error
    except AccessDenied as error:
        if error.is_general:
            raise
        raise Unreadable(one_line(error)) from error
    except SpecError as error:  # A key that no storage takes.
        raise Unreadable(one_line(error)) from error
    except FileError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_THE_FILE:
            raise Unreadable(one_line(error)) from error
        raise


def one_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class BrokenPiece:
    """See `Piece`: a file that cannot be read is one input, which is an error. How many rows it has, nobody knows."""

    def __init__(self, file: Mapping[str, Any], reason: str) -> None:
        self._params = {**file, "start": 0, "rows": 1, "broken": reason}
        self._left = 1

    def __len__(self) -> int:
        return self._left

    def weight(self) -> int:
        return 8

    def cut(self, rows: int) -> dict[str, Any]:
        self._left = 0
        return self._params

    def join(self, other: Piece) -> bool:
        return False

    def shorten(self, rows: int) -> None:
        self._left = min(self._left, rows)


def own_fault(error: ShoalError, *, is_proven: bool) -> str:
    """Why the file that was looked at cannot be used; raises what is not its fault alone.

    Until one file was as it should be (`is_proven`), what is asked for may be what is wrong, and that is an error.
    """
    if not is_proven:
        raise error
    try:
        with blamed():
            raise error
    except Unreadable as found:
        return str(found)
