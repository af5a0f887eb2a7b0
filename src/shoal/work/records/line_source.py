"""Lines of a range of a file, plain or in gzip members. What is in a line is not looked at.

A line of a plain file belongs to the range in which it begins. A line of a gzip file belongs to the range in which the
member begins that has the line feed before it: a member may begin and end within a line.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from shoal.work.records.archive_frames import first_match
from shoal.work.records.record import LARGEST_BYTES, Extent, Range

BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b\x08"
_STEP_BYTES = 1024 * 1024
_LOOK_BYTES = 64 * 1024


class Line(NamedTuple):
    """A line without the line feed at its end."""

    offset: int
    """Where it begins in the file; of a gzip file, where the member begins."""
    data: bytes


class Lines:
    """The lines that belong to a range, and all that follow: who takes them stops at one whose offset is too high."""

    def __init__(self, file: BinaryIO, range_: Range, bad: Callable[[int, str], None]) -> None:
        self._file, self._bad = file, bad
        self._size = file.seek(0, 2)
        self._start, self.stop = range_.start, min(range_.stop, self._size)
        file.seek(0)
        self.is_packed = file.read(len(_GZIP)) == _GZIP
        self.extent = Extent(None, self.stop)
        """Of what was taken."""

    def __iter__(self) -> Iterator[Line]:
        return self._packed() if self.is_packed else self._plain()

    def _plain(self) -> Iterator[Line]:
        self._file.seek(0)
        head = len(BOM) if self._file.read(len(BOM)) == BOM else 0
        at = first = self._after_line_feed(self._start - 1) if self._start > 0 else head
        if first >= self.stop:
            return
        self._file.seek(first)
        for line, length in _split(iter(lambda: self._file.read(_STEP_BYTES), b"")):
            self.extent = Extent(first, at)
            if line is not None:
                yield Line(at, line)
            else:
                self._too_long(at, length)
            at += length
        self.extent = Extent(first, self._size)

    def _packed(self) -> Iterator[Line]:
        begin = first = 0 if self._start == 0 else self._next_member(self._start, self.stop)
        while begin is not None:
            members = _Members(self._file, begin, self.stop)
            is_whole = is_first = begin == 0
            owner = begin
            for line, length in _split(members.pieces()):
                self.extent = Extent(first, self._size if members.after is None else members.after)
                if line is None:
                    self._too_long(owner, length)
                elif is_whole and members.error is None:
                    yield Line(owner, line.removeprefix(BOM) if is_first else line)
                is_whole, is_first, owner = True, False, members.begin
            end = members.after
            begin = None
            if members.error is not None:
                self._bad(members.begin, members.error)
                begin = self._next_member(members.begin + 1, self.stop)
                end = end or self._next_member(max(members.begin + 1, self.stop), self._size)
            self.extent = Extent(first, self._size if end is None else end)

    def _too_long(self, offset: int, length: int) -> None:
        self._bad(offset, f"a line of {length:,} bytes; at most {LARGEST_BYTES:,} are read")

    def _after_line_feed(self, at: int) -> int:
        self._file.seek(at)
        while piece := self._file.read(_LOOK_BYTES):
            found = piece.find(b"\n")
            if found >= 0:
                return at + found + 1
            at += len(piece)
        return self._size

    def _next_member(self, low: int, high: int) -> int | None:
        """The first gzip member that begins at `low` or later, and before `high`."""
        return first_match(self._file, _GZIP, low, high, self._is_member)

    def _is_member(self, at: int) -> bool:
        self._file.seek(at)
        try:
            return len(zlib.decompressobj(31).decompress(self._file.read(_LOOK_BYTES), _LOOK_BYTES)) > 0
        except zlib.error:
            return False


def _split(pieces: Iterator[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Lines, and their lengths with the line feed; None for one that is too long."""
    rest: list[bytes] = []
    length = 0
    for piece in pieces:
        *lines, last = piece.split(b"\n")
        for line in lines:
            length += len(line) + 1
            rest.append(line)
            yield b"".join(rest) if length <= LARGEST_BYTES else None, length
            rest.clear()
            length = 0
        length += len(last)
        if length <= LARGEST_BYTES:
            rest.append(last)
        else:
            rest.clear()
    if length:
        yield b"".join(rest) if length <= LARGEST_BYTES else None, length


class _Members:
    """What gzip members hold, from one on to the end of the file or to where one is damaged."""

    def __init__(self, file: BinaryIO, begin: int, stop: int) -> None:
        self._file, self._stop = file, stop
        self.begin = begin
        """Of the member that the last piece is of."""
        self.after: int | None = None
        """The first one that begins at `stop` or later."""
        self.error: str | None = None

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(self.begin)
        data, at = b"", self.begin
        try:
            while data or (data := self._file.read(_LOOK_BYTES)):
                self.begin = at
                if at >= self._stop and self.after is None:
                    self.after = at
                member = zlib.decompressobj(31)
                while not member.eof:
                    piece = member.decompress(data, _STEP_BYTES)
                    left = member.unused_data or member.unconsumed_tail
                    at += len(data) - len(left)
                    if piece:
                        yield piece
                    data = left
                    if not data and not member.eof and not (data := self._file.read(_LOOK_BYTES)):
                        self.error = "it breaks off within a gzip member"
                        return
        except zlib.error as error:
            self.error = f"it cannot be decompressed: {error}"
