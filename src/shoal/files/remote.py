"""A readable, seekable file made of requests for ranges of bytes. Knows no storage: it is given a function."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

from shoal.files.base import PIECE_BYTES


class _Pieces(io.RawIOBase):
    """Asks for a range of bytes whenever one is read."""

    def __init__(self, fetch: Callable[[int, int], bytes], size_bytes: int) -> None:
        self._fetch = fetch
        self._size = size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._next(min(len(buffer), PIECE_BYTES))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        pieces = []
        while piece := self._next(PIECE_BYTES):
            pieces.append(piece)
        return b"".join(pieces)

    def _next(self, most: int) -> bytes:
        length = min(most, self._size - self._at)
        if length <= 0:
            return b""
        data = self._fetch(self._at, length)
        self._at += len(data)
        return data


def open_pieces(fetch: Callable[[int, int], bytes], size_bytes: int) -> BinaryIO:
    """A file of this size, of which `fetch(start, length)` gives any part."""
    buffer_bytes = max(1, min(size_bytes, PIECE_BYTES))
    return cast(BinaryIO, io.BufferedReader(_Pieces(fetch, size_bytes), buffer_bytes))
