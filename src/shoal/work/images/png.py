"""Damage of PNG files that Pillow does not see: it gives black rows, or pixels of another colour, and says nothing."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from shoal.work.images.reasons import damaged

CRITICAL = (b"IHDR", b"PLTE", b"IDAT")
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
INTERLACED = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
"""The seven passes: the first column and row of each, and its steps."""
BLOCK_BYTES = 1 << 16


def check_sums(raw: bytes) -> None:
    """`Unreadable` when a chunk that makes the picture is not as it was written."""
    for kind, start, end in _chunks(raw):
        if zlib.crc32(memoryview(raw)[start - 4 : end]) != int.from_bytes(raw[end : end + 4], "big"):
            raise damaged("PNG", f"wrong checksum of a {kind.decode()} chunk")


def check_rows(raw: bytes) -> None:
    """`Unreadable` when the pixels end too early, in data that are whole otherwise. Decompresses all of them."""
    missing = _expected_bytes(raw)
    inflate = zlib.decompressobj()
    for kind, start, end in _chunks(raw):
        rest = raw[start:end] if kind == b"IDAT" else b""
        while missing > 0 and (piece := inflate.decompress(rest, BLOCK_BYTES)):
            missing -= len(piece)
            rest = inflate.unconsumed_tail
    if missing > 0:
        raise damaged("PNG", "rows are missing")


def is_interlaced(raw: bytes) -> bool:
    return len(raw) > 28 and raw[28] != 0


def _chunks(raw: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Kind, start and end of the data, of the whole chunks that make the first picture."""
    start = 8
    while start + 12 <= len(raw):
        end = start + 8 + int.from_bytes(raw[start : start + 4], "big")
        kind = bytes(raw[start + 4 : start + 8])
        if kind == b"IEND" or end + 4 > len(raw):
            return
        if kind in CRITICAL:
            yield kind, start + 8, end
        start = end + 4


def _expected_bytes(raw: bytes) -> int:
    width, height = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    bits = raw[24] * CHANNELS.get(raw[25], 1)
    passes = INTERLACED if is_interlaced(raw) else ((0, 0, 1, 1),)
    total = 0
    for left, top, step_x, step_y in passes:
        columns, rows = -(-(width - left) // step_x), -(-(height - top) // step_y)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total
