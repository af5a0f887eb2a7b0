"""How a web archive is compressed, and where in it records can begin: at gzip members, zstd or lz4 frames, or anywhere.

A start is known by its magic bytes, and by what is behind them: `WARC/`. An archive that is stored in a record has such
starts as well: who reads from one on finds out at the end of the range (see `Extent`).
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, BinaryIO, NamedTuple

from shoal.work.protocols import Unreadable
from shoal.work.records.record import LARGEST_BYTES

END_ID = "<urn:shoal:end>"
"""Of the record that is put after the last one of a range: who reads it knows that all before it was whole."""
_END = "WARC/1.0\r\nWARC-Type: {}\r\nWARC-Record-ID: {}\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
_VERSION = b"WARC/"
_PLAIN = re.compile(rb"WARC/\d\.\d{1,2}[ \t]*\r?\n(?:[^\r\n]+\r?\n)*?WARC-Type[ \t]*:", re.IGNORECASE)
_LENGTH = re.compile(rb"\nContent-Length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?\n", re.IGNORECASE)
_GZIP, ZSTD, _LZ4 = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
_DICTIONARY, _SKIPPED = b"\x5d\x2a\x4d\x18", b"\x2a\x4d\x18"
_LOOK_BYTES = 64 * 1024
_STEP_BYTES = 1024 * 1024
_NAMES = {_GZIP: "Gzip", ZSTD: "Zstd", _LZ4: "Lz4", _VERSION: ""}


class Framing(NamedTuple):
    """One way in which records follow each other in a file."""

    magic: bytes
    dictionary: bytes | None = None
    """Of a zstd file: what its frames were compressed with."""
    is_lax: bool = False
    """Whether lines of headers end with LF alone. The library then goes on at the next header after whatever is wrong,
    and does not say so."""

    @property
    def is_gzip(self) -> bool:
        return self.magic == _GZIP

    @property
    def keeps_its_place(self) -> bool:
        """Whether the reader is in the frame of a record until the next record is asked for."""
        return self.magic in (_GZIP, ZSTD)

    def reader(self, source: Any) -> Any:
        """What decompresses, and says where the frame begins that it is in; the source itself for a plain file."""
        import fastwarc

        name = _NAMES[self.magic]
        if not name:
            return source
        options = {"dictionary": self.dictionary} if self.dictionary is not None else {}
        return getattr(fastwarc, f"{name}Reader")(source, **options)

    def end(self, type_: str) -> bytes:
        """The record that ends a range, of this type, as a file of this kind would have it."""
        return _compressed(_NAMES[self.magic], _END.format(type_, END_ID).encode())

    def next_start(self, file: BinaryIO, low: int, high: int) -> int | None:
        """The first start of a record at `low` or later, and before `high`."""
        return first_match(file, self.magic, low, high, lambda at: self.is_start(file, at))

    def frame_end(self, file: BinaryIO, at: int, size: int) -> int | None:
        """Where the member, frame or plain record that begins here ends; None where that is nowhere."""
        if self.magic == _VERSION:
            end = _plain_end(file, at)
            return end if end is not None and (end == size or self.is_start(file, end)) else None
        end = {_GZIP: _gzip_end, ZSTD: _zstd_end, _LZ4: _lz4_end}[self.magic](file, at)
        return end if end is not None and end <= size else None

    def is_start(self, file: BinaryIO, at: int) -> bool:
        """Whether a record begins here."""
        if self.magic == _VERSION:
            file.seek(max(0, at - 1))
            head = file.read(_LOOK_BYTES)
            return (at == 0 or head[:1] == b"\n") and _PLAIN.match(head, min(at, 1)) is not None
        return self.shown(file, len(_VERSION), at) == _VERSION

    def shown(self, file: BinaryIO, length: int, at: int = 0) -> bytes:
        """The first bytes of what is compressed here; none where that is nothing."""
        file.seek(at)
        try:
            if self.magic == _VERSION:
                return file.read(length)
            if self.magic == _GZIP:
                return zlib.decompressobj(31).decompress(file.read(_LOOK_BYTES), length)
            return bytes(self.reader(_Unclosed(file)).read(length))
        except (OSError, ValueError, zlib.error):
            return b""


def first_match(
    file: BinaryIO, magic: bytes, low: int, high: int, is_it: Callable[[int], bool]
) -> int | None:
    """The first place of these bytes at `low` or later, and before `high`, that is one indeed."""
    overlap = len(magic) - 1
    while low < high:
        file.seek(low)
        data = file.read(min(_STEP_BYTES, high - low) + overlap)
        at = data.find(magic)
        while at >= 0 and low + at < high:
            if is_it(low + at):
                return low + at
            at = data.find(magic, at + 1)
        if len(data) <= overlap:
            return None
        low += len(data) - overlap
    return None


def framing_of(file: BinaryIO) -> tuple[Framing, int]:
    """How this file is compressed, by its content, and where its first record should begin."""
    framing, head = _compression(file)
    first_line = framing.shown(file, 16, head).partition(b"\n")
    return framing._replace(is_lax=first_line[1] != b"" and not first_line[0].endswith(b"\r")), head


def _compression(file: BinaryIO) -> tuple[Framing, int]:
    file.seek(0)
    head = file.read(8)
    for magic in (_GZIP, ZSTD, _LZ4):
        if head.startswith(magic):
            return Framing(magic), 0
    if head[1:4] != _SKIPPED or head[0] & 0xF0 != 0x50:
        return Framing(_VERSION), 0
    length = int.from_bytes(head[4:8], "little")
    if not head.startswith(_DICTIONARY):
        return Framing(ZSTD), 8 + length
    if length > LARGEST_BYTES:
        raise Unreadable(f"its zstd dictionary has {length:,} bytes; at most {LARGEST_BYTES:,} are read")
    return Framing(ZSTD, _dictionary(file.read(length))), 8 + length


def _dictionary(data: bytes) -> bytes:
    """It may itself be compressed."""
    if not data.startswith(ZSTD):
        return data
    from fastwarc import ZstdReader

    try:
        return bytes(ZstdReader(io.BytesIO(data)).read(LARGEST_BYTES))
    except (OSError, ValueError) as error:
        raise Unreadable(f"its zstd dictionary cannot be read: {error}") from None


@cache
def _compressed(name: str, data: bytes) -> bytes:
    if not name:
        return data
    import fastwarc

    kept = io.BytesIO()
    writer = getattr(fastwarc, f"{name}Writer")(_Unclosed(kept))
    writer.write(data)
    writer.close()
    return kept.getvalue()


class _Unclosed:
    """A file that the library does not close: it is needed afterwards."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.write, self.tell, self.flush = file.read, file.write, file.tell, file.flush

    def close(self) -> None:
        pass


def _gzip_end(file: BinaryIO, at: int) -> int | None:
    file.seek(at)
    member = zlib.decompressobj(31)
    try:
        while not member.eof:
            data = member.unconsumed_tail or file.read(_LOOK_BYTES)
            if not data:
                return None
            member.decompress(data, _STEP_BYTES)
    except zlib.error:
        return None
    return file.tell() - len(member.unused_data)


def _zstd_end(file: BinaryIO, at: int) -> int | None:
    """By the sizes of its blocks (RFC 8878), without decompressing them."""
    file.seek(at + 4)
    flags = file.read(1)[0]
    is_single = flags >> 5 & 1
    at += 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[flags >> 6]
    while len(head := _at(file, at, 3)) == 3:
        block = int.from_bytes(head, "little")
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        if block & 1:
            return at + (4 if flags & 4 else 0)
    return None


def _lz4_end(file: BinaryIO, at: int) -> int | None:
    """By the sizes of its blocks, without decompressing them."""
    flags = _at(file, at + 4, 1)[0]
    at += 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    while len(head := _at(file, at, 4)) == 4:
        length = int.from_bytes(head, "little") & 0x7FFF_FFFF
        if length == 0:
            return at + 4 + (4 if flags & 4 else 0)
        at += 4 + length + (4 if flags & 16 else 0)
    return None


def _at(file: BinaryIO, at: int, length: int) -> bytes:
    file.seek(at)
    return file.read(length)


def _plain_end(file: BinaryIO, at: int) -> int | None:
    head = _at(file, at, _STEP_BYTES)
    blank = re.compile(rb"\r?\n\r?\n").search(head)
    length = _LENGTH.search(head, 0, blank.end()) if blank is not None else None
    if blank is None or length is None:
        return None
    end = at + blank.end() + int(length[1])
    following = _at(file, end, 8)
    return end + len(following) - len(following.lstrip(b"\r\n"))
