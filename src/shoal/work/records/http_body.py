"""From the payload of an HTTP response, as it was sent, to what it means: chunks put together, compression undone.

Servers lie about both. What does not look as the headers say is left as it is; what breaks off is kept up to there.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

from shoal.work.protocols import Unreadable
from shoal.work.records.record import LARGEST_BYTES

_STEP_BYTES = 1024 * 1024
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""Kinds of deflate streams, as zlib numbers them."""


def decoded(data: bytes, transfer: str | None, content: str | None) -> bytes:
    """The payload without what `Transfer-Encoding` and `Content-Encoding` name; at most `LARGEST_BYTES`."""
    if transfer is not None and "chunked" in transfer.lower():
        data = _joined(data)
    for name in reversed((content or "").lower().split(",")):
        decode = _DECODERS.get(name.strip())
        if decode is not None and data:
            data = decode(data)
    return data


def _joined(data: bytes) -> bytes:
    """The chunks as one; all of it where the first is none."""
    parts: list[bytes] = []
    at = 0
    while (end := data.find(b"\n", at, at + 1024)) >= 0:
        try:
            length = int(data[at:end].partition(b";")[0].strip(), 16)
        except ValueError:
            break
        if length <= 0:
            return b"".join(parts)
        parts.append(data[end + 1 : end + 1 + length])
        at = end + 1 + length
        at += 2 if data.startswith(b"\r\n", at) else data.startswith(b"\n", at)
    return b"".join(parts) if parts else data


def _inflated(data: bytes, *kinds: int) -> bytes:
    for kind in kinds:
        stream = zlib.decompressobj(kind)
        try:
            start = stream.decompress(data, _STEP_BYTES)
        except zlib.error:
            continue
        return _bounded(lambda stream=stream: _more(stream), start)  # type: ignore[misc]
    return data


def _more(stream: Any) -> bytes:
    try:
        return bytes(stream.decompress(stream.unconsumed_tail, _STEP_BYTES)) if not stream.eof else b""
    except zlib.error:
        return b""


def _read_by(name: str, data: bytes) -> bytes:
    """With a reader of FastWARC."""
    from fastwarc import stream_io

    reader = getattr(stream_io, name)(io.BytesIO(data))

    def more() -> bytes:
        try:
            return bytes(reader.read(_STEP_BYTES))
        except (OSError, ValueError):
            return b""

    return _bounded(more, b"") or data


def _bounded(more: Callable[[], bytes], start: bytes) -> bytes:
    parts, size = [start], len(start)
    while part := more():
        parts.append(part)
        size += len(part)
        if size > LARGEST_BYTES:
            raise Unreadable(f"its body is more than {LARGEST_BYTES:,} bytes once it is decompressed")
    return b"".join(parts)


_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: _inflated(data, _GZIP),
    "x-gzip": lambda data: _inflated(data, _GZIP),
    "deflate": lambda data: _inflated(data, _ZLIB, _RAW),
    "br": lambda data: _read_by("BrotliReader", data),
    "zstd": lambda data: _read_by("ZstdReader", data),
}
