"""What every storage can do, its values, and which keys it takes. The storages themselves are in modules beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from shoal.errors import SpecError

PIECE_BYTES = 8 * 1024 * 1024
"""How much of a large file is moved by one request."""


class Entry(NamedTuple):
    """A file in a storage. `etag` changes when the content does, where the storage has such a thing."""

    key: str
    size_bytes: int
    modified_s: float | None = None
    etag: str | None = None


class Patience(NamedTuple):
    """How long to wait for somebody else's machine, and how often to try."""

    connect_s: float = 5.0
    answer_s: float = 30.0
    """For the next bytes of an answer, not for all of it."""
    tries: int = 8
    retry_for_s: float = 120.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0


class Storage(Protocol):
    """Files under one root. A key is a relative path with `/` between its parts; nothing leaves the root.

    A storage is a small value: it connects when it is first used, may be used by several threads at once, and pickled.
    After a fork it may be used if no storage of its kind was used before. Every call blocks, tries again where that
    may help, and raises `NotFound`, `AccessDenied`, `Unreachable`, `SpecError` (a bad key) or another `FileError`.
    """

    @property
    def url(self) -> str:
        """The root, without a slash at the end."""

    def list(self, prefix: str = "", pattern: str | None = None, *, hidden: bool = False) -> Iterator[Entry]:
        """The files below the folder `prefix`, as they are found, in no order; none where there is no such folder.

        `pattern` (`*`, `?`, `[...]`, `**` for any folders) is matched with what comes after the prefix. Names that
        start with a dot are left out, unless the pattern has the dot: unfinished files start with one. With `hidden`
        they are names like others.
        """

    def stat(self, key: str) -> Entry:
        """One file as `list` would give it."""

    def exists(self, key: str) -> bool:
        """Whether there is such a file. A folder is none."""

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start` on; fewer than `length` where the file ends before."""

    def open(self, key: str) -> BinaryIO:
        """A file for larger reads, in pieces, forwards and backwards. For one thread; the caller closes it."""

    def download(self, key: str, path: str | Path) -> None:
        """Copy to a local file, which is there when it is complete and not before."""

    def write(self, key: str, data: bytes | Path) -> None:
        """Put these bytes, or the content of this local file, there. Others see the old content or the new."""

    def write_new(self, key: str, data: bytes) -> bool:
        """Put these bytes there unless there is something already; whether it was this call that did.

        Of several callers with different bytes, exactly one is told True. When an answer gets lost on the way, bytes
        equal to ours are taken to be ours: who uses this as a lock writes something of its own.
        """

    def move(self, key: str, to: str) -> None:
        """Give a file another key, in place of what is there; `NotFound` where there is no such file.

        It is under one of the keys at any time; for a moment under both where the storage can only copy.
        """

    def ensure_claims_hold(self) -> None:
        """Raises `SpecError` where the server does not keep what `write_new` promises. To be called before the first
        one that others rely on; it is found out once in a process.
        """

    def delete(self, key: str) -> None:
        """Remove a file; nothing happens where there is none."""


def checked_key(key: str) -> str:
    """The key, if it stays below the root wherever it is put."""
    parts = key.split("/")
    if not key or "\0" in key or any(part in ("", ".", "..") for part in parts):
        raise SpecError(
            f"{key!r} is no key of a storage.",
            hint="It is a relative path: no empty parts, no '.' or '..', nothing before the first name.",
        )
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix without a slash at its end, if it stays below the root. Empty for the root itself."""
    prefix = prefix.removesuffix("/")
    return checked_key(prefix) if prefix else ""


def joined(*parts: str) -> str:
    """Keys one below the other; empty ones do not count."""
    return "/".join(part for part in parts if part)
