"""What storages behind a network share: files made of ranges of bytes, retries, and a guard against forks."""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable
from typing import BinaryIO, TypeVar, cast

from shoal.errors import FileError, Unreachable
from shoal.files.base import PIECE_BYTES, Patience

_first_used: dict[str, int] = {}
T = TypeVar("T")


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


def check_process(library: str) -> None:
    """Call before a library is used. It may be used in any process, unless a parent had used it before the fork."""
    if _first_used.setdefault(library, os.getpid()) != os.getpid():
        raise FileError(
            f"{library} was used before this process was forked, and cannot be used in it.",
            hint="Start the process another way (multiprocessing: spawn), or open files only after the fork.",
        )


def retried(action: Callable[[], T], patience: Patience) -> T:
    """What the action gives; it is done again after `Unreachable`, so doing it twice must be harmless."""
    began = time.monotonic()
    tries = 1
    while True:
        try:
            return action()
        except Unreachable as error:
            if error.tries >= patience.tries:  # The library tried as often as it should.
                raise
            wait_s = random.uniform(0.5, 1.0) * min(
                patience.longest_wait_s, patience.first_wait_s * 2 ** (tries - 1)
            )
            if tries >= patience.tries or time.monotonic() - began + wait_s > patience.retry_for_s:
                raise unreachable(str(error), tries, error.hint) from error
        time.sleep(wait_s)
        tries += 1


def unreachable(message: str, tries: int, hint: str | None) -> Unreachable:
    """The error when there is no more trying."""
    told = f"{message} Tried {tries} times." if tries > 1 else message
    return Unreachable(told, hint=hint, tries=tries)
