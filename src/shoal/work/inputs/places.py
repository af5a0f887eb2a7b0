"""Where inputs are: the storage, the name by which items know it again, and paths as a person would write them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from shoal.files import Entry, Storage, find, is_url, open_storage
from shoal.spec.shared_sections import Input

_WEB = ("http://", "https://")


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
