"""Files of lines as they are, or unpacked where their content is gzip. Other packings are refused."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple, cast

from shoal.errors import SpecError
from shoal.work.inputs.places import Place, one_line
from shoal.work.protocols import Unreadable

_GZIP = b"\x1f\x8b"
_REFUSED = {
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
}
_KEPT_BYTES = 64
_WRONG = (EOFError, gzip.BadGzipFile, zlib.error)


class OpenedLines(NamedTuple):
    """A file of lines, unpacked."""

    file: BinaryIO
    is_packed: bool


@contextmanager
def opened_lines(place: Place, key: str) -> Iterator[OpenedLines]:
    """The file, open. Raises `SpecError` for a packing that is not read, and where reading finds it damaged."""
    with place.storage.open(key) as file:
        head = file.read(6)
        refused = next((name for magic, name in _REFUSED.items() if head.startswith(magic)), None)
        if refused is not None:
            raise SpecError(
                f"{place.path(key)} is compressed ({refused}).", hint="Unpack it first, or pack it with gzip."
            )
        file.seek(0)
        if not head.startswith(_GZIP):
            yield OpenedLines(file, is_packed=False)
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            try:
                yield OpenedLines(cast(BinaryIO, unpacked), is_packed=True)
            except _WRONG as error:
                raise SpecError(f"{place.path(key)} cannot be unpacked: {one_line(error)}.") from error


class Unpacked:
    """Parts of gzip files, for a worker, whose items come in the order of their lines: going back begins anew.

    Keeps the last file open. Safe for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._name: tuple[str, str, str] | None = None
        self._file: gzip.GzipFile | None = None
        self._source: BinaryIO | None = None
        self._tail = b""
        """What was read last: an item looks at what is just before it."""

    def read(self, place: Place, mark: str, key: str, *, start: int, length: int) -> bytes:
        """The unpacked bytes from `start` on; fewer where the file ends before. `Unreadable` where it is damaged."""
        with self._lock:
            file = self._at((place.root, key, mark), place, start)
            try:
                return self._part(file, start, length)
            except _WRONG as error:
                self._close()
                raise Unreadable(f"cannot be unpacked: {one_line(error)}") from None
            except BaseException:
                self._close()
                raise

    def __del__(self) -> None:
        self._close()

    def _part(self, file: gzip.GzipFile, start: int, length: int) -> bytes:
        back = file.tell() - start
        kept = self._tail[-back:] if back > 0 else b""
        if back < 0:
            file.seek(start)
            self._tail = b""
        fresh = file.read(length - len(kept)) if length > len(kept) else b""
        self._tail = (self._tail + fresh)[-_KEPT_BYTES:]
        return (kept + fresh)[:length]

    def _at(self, name: tuple[str, str, str], place: Place, start: int) -> gzip.GzipFile:
        """The file, before `start` or so little behind it that what is missing was kept."""
        if self._name != name or self._file is None or start < self._file.tell() - len(self._tail):
            self._close()
            self._source = place.storage.open(name[1])
            self._file, self._name = gzip.GzipFile(fileobj=self._source), name
        return self._file

    def _close(self) -> None:
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
            if self._source is not None:
                self._source.close()
        self._name = self._file = self._source = None
        self._tail = b""
