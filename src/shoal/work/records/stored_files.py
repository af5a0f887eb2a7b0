"""Files of ranges: opened where they are, with the next piece on its way, if they are still what was listed."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, cast

from shoal.files import Storage, is_url
from shoal.files.base import PIECE_BYTES
from shoal.work.inputs.places import CHANGED, Place, Places, blamed, mark_of
from shoal.work.protocols import Unreadable
from shoal.work.records.archive_frames import ZSTD
from shoal.work.records.record import LARGEST_BYTES, Range

_FIRST_BYTES = 256 * 1024


class StoredFiles:
    """Opens the files of ranges, in a worker. Safe for several threads."""

    def __init__(self, folder: str, endpoint: str | None = None) -> None:
        """Relative roots are below `folder`; `endpoint` is the address of the S3 server."""
        self._places = Places(folder, endpoint)

    def path(self, range_: Range) -> str:
        """The path of the file, as a person would write it."""
        return self._places.at(range_.root).path(range_.path)

    def open(self, range_: Range) -> BinaryIO:
        """The file, to be closed by the caller. Raises `Unreadable` where it is gone, or is not what was listed."""
        place = self._places.at(range_.root)
        with blamed():
            if range_.is_exact:
                data = _bytes_of(place.storage, range_)
                if not data.startswith(ZSTD):  # Which may need the dictionary at the start of the file.
                    return cast(BinaryIO, Window(data, range_.start))
            _check(place, range_)
            file = place.storage.open(range_.path)
        return file if not is_url(place.storage.url) else _read_ahead(file, range_.stop)


def _check(place: Place, range_: Range) -> None:
    if range_.mark and mark_of(place.storage.stat(range_.path)) != range_.mark:
        raise Unreadable(CHANGED)


def _bytes_of(storage: Storage, range_: Range) -> bytes:
    length = range_.stop - range_.start
    if length > LARGEST_BYTES:
        raise Unreadable(f"it has {length:,} bytes; at most {LARGEST_BYTES:,} are read")
    data = storage.read(range_.path, start=range_.start, length=length)
    if len(data) < length:
        raise Unreadable(f"the file ends before byte {range_.stop:,}, where the record should end")
    return data


class Window(io.BytesIO):
    """A part of a file, which begins at `start`; who looks before it sees how it begins."""

    def __init__(self, data: bytes, start: int) -> None:
        super().__init__(data)
        self._start = start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._start + super().seek(
            max(0, offset - self._start) if whence == io.SEEK_SET else offset, whence
        )

    def tell(self) -> int:
        return self._start + super().tell()


def _read_ahead(file: BinaryIO, until: int) -> BinaryIO:
    size = file.seek(0, io.SEEK_END)

    def fetch(start: int, length: int) -> bytes:
        file.seek(start)
        return file.read(length)

    return cast(BinaryIO, ReadAhead(fetch, size, until, file.close))


class ReadAhead(io.RawIOBase):
    """A file of another machine. Who reads on and on gets larger pieces, and the next one is fetched meanwhile.

    The first piece after a jump is small: jumps are to see how a file begins. Nothing that begins at `until` or later
    is fetched before it is asked for. At most two pieces are in memory.
    """

    def __init__(
        self, fetch: Callable[[int, int], bytes], size: int, until: int, close: Callable[[], None]
    ) -> None:
        self._fetch, self._size, self._until, self._close_file = fetch, size, until, close
        self._at = 0
        self._piece, self._piece_start = b"", 0
        self._next: Future[bytes] | None = None
        self._length = _FIRST_BYTES
        self._thread = ThreadPoolExecutor(1, "shoal-read-ahead")

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        left = self._size - self._at if size is None or size < 0 else min(size, self._size - self._at)
        parts = []
        while left > 0:
            begin = self._at - self._piece_start
            if not 0 <= begin < len(self._piece):
                self._turn_to(self._at)
                begin = 0
            part = self._piece[begin : begin + left]
            if not part:
                break
            parts.append(part)
            self._at += len(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._close_file()
        super().close()

    def _turn_to(self, start: int) -> None:
        """Have the piece that begins here, and ask for the one behind it."""
        end = self._piece_start + len(self._piece)
        is_next = start == end and len(self._piece) > 0
        if is_next and self._next is not None:
            piece = self._next.result()
        else:
            if self._next is not None:
                self._next.exception()  # One thread at a time uses the file.
            self._length = min(self._length * 2, PIECE_BYTES) if is_next else _FIRST_BYTES
            piece = self._fetch(start, min(self._length, self._size - start))
        self._piece, self._piece_start, self._next = piece, start, None
        end = start + len(piece)
        if is_next and end < min(self._until, self._size):
            self._length = min(self._length * 2, PIECE_BYTES)
            self._next = self._thread.submit(self._fetch, end, min(self._length, self._size - end))
