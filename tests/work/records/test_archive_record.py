"""A record of a web archive: headers, bodies after decoding, charsets; servers that lie about them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from fastwarc.stream_io import BrotliWriter, ZstdWriter

from shoal.work.protocols import Unreadable
from shoal.work.records.archive_reader import ArchiveReader
from shoal.work.records.archive_record import ArchiveRecord
from shoal.work.records.record import LARGEST_BYTES, Range

PLAIN = b"hello world " * 100
READERS: list[Iterator[ArchiveRecord]] = []
"""A record can be used as long as its reader is there."""
CHUNKS = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"


def record(payload: bytes, kind: str = "response", media: str = "application/http") -> ArchiveRecord:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: <http://a.b/>\r\nContent-Type: {media}\r\n"
    data = gzip.compress(
        head.encode() + b"Content-Length: %d\r\n\r\n" % len(payload) + payload + b"\r\n\r\n", 1
    )
    READERS.append(iter(ArchiveReader(io.BytesIO(data), Range("f", 0, len(data)), None, None, print)))
    return next(READERS[-1])


def response(body: bytes, *headers: str, status: str = "HTTP/1.1 200 OK") -> ArchiveRecord:
    return record("".join(f"{each}\r\n" for each in (status, *headers)).encode("latin-1") + b"\r\n" + body)


class Unclosed(io.BytesIO):
    def close(self) -> None:
        pass


def written(writer: Any, data: bytes) -> bytes:
    target = Unclosed()
    opened = writer(target)
    opened.write(data)
    opened.close()
    return target.getvalue()


BODIES = {
    "gzip": ("Content-Encoding: gzip", gzip.compress(PLAIN), PLAIN),
    "x-gzip": ("Content-Encoding: x-gzip", gzip.compress(PLAIN), PLAIN),
    "gzip, and junk": ("Content-Encoding: gzip", gzip.compress(PLAIN) + b"junk", PLAIN),
    "gzip twice": ("Content-Encoding: gzip, GZIP", gzip.compress(gzip.compress(PLAIN)), PLAIN),
    "no gzip": ("Content-Encoding: gzip", PLAIN, PLAIN),
    "deflate": ("Content-Encoding: deflate", zlib.compress(PLAIN), PLAIN),
    "raw deflate": ("Content-Encoding: deflate", zlib.compress(PLAIN, wbits=-15), PLAIN),
    "br": ("Content-Encoding: br", written(BrotliWriter, PLAIN), PLAIN),
    "zstd": ("Content-Encoding: zstd", written(ZstdWriter, PLAIN), PLAIN),
    "no br": ("Content-Encoding: br", b"\xff" * 50, b"\xff" * 50),
    "unknown": ("Content-Encoding: mine", PLAIN, PLAIN),
    "chunks": ("Transfer-Encoding: Chunked", CHUNKS, b"hello world"),
    "chunks that break off": ("Transfer-Encoding: chunked", CHUNKS[:19], b"hello w"),
    "no chunks": ("Transfer-Encoding: chunked", PLAIN, PLAIN),
}


@pytest.mark.parametrize(("header", "body", "expected"), BODIES.values(), ids=BODIES)
def test_bodies_are_decoded_where_they_are_what_the_headers_say(
    header: str, body: bytes, expected: bytes
) -> None:
    found = response(body, header)
    assert found.body() == expected
    assert found.body() is found.body()


def test_a_compressed_body_that_breaks_off_is_kept_up_to_there() -> None:
    body = response(gzip.compress(PLAIN)[:-12], "Content-Encoding: gzip").body()
    assert body
    assert PLAIN.startswith(body)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_decompression_bomb_is_a_bad_record_and_no_memory(layers: int) -> None:
    bomb = bytes(LARGEST_BYTES * 2)
    for _ in range(layers):
        bomb = gzip.compress(bomb, 1)
    with pytest.raises(Unreadable, match="once it is decompressed"):
        response(bomb, "Content-Encoding: " + ", ".join(["gzip"] * layers)).body()


def test_headers_are_found_without_regard_to_case_and_the_first_counts() -> None:
    found = response(
        b"x",
        "SERVER:  one ",
        "Server: two",
        "X: caf\xc3\xa9",
        "Y: caf\xe9",
        "Content-Type: Text/HTML ;charset=x",
    )
    assert found.http is not None
    assert [found.http.get(name) for name in ("server", "x", "y", "z")] == ["one", "café", "café", None]
    assert (found.status, found.media_type, found.url) == (200, "text/html", "http://a.b/")
    assert found.headers.get("warc-TYPE") == "response"
    assert found.headers.get("nothing", "else") == "else"


@pytest.mark.parametrize(
    ("payload", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\nServer: x\n\nbody", 200, b"body"),
        (b"HTTP/1.1 OK\r\n\r\nbody", None, b"body"),
        (b"", None, b""),
        (b"HTTP/1.1 404 Not Found\r\n", 404, b""),
    ],
    ids=["LF", "no status", "empty", "no body"],
)
def test_responses_with_odd_headers_are_read(payload: bytes, status: int | None, body: bytes) -> None:
    found = record(payload)
    assert (found.status, found.media_type, found.body()) == (status, "", body)


def test_headers_without_an_end_are_a_bad_record() -> None:
    with pytest.raises(Unreadable, match="its HTTP headers cannot be read"):
        record(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 2_000_000).body()


def test_what_is_no_response_has_no_http() -> None:
    for found in (record(b"GET / HTTP/1.1\r\n\r\n", "request"), record(b"x", "resource", "text/plain")):
        assert (found.http, found.status, found.media_type) == (None, None, "")
        assert found.row == {}


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        ("Ελλάδα".encode("iso-8859-7"), "text/html; charset=ISO-8859-7", "Ελλάδα"),
        ("Ελλάδα".encode(), 'text/html; charset="UTF-8"', "Ελλάδα"),
        ("Ελλάδα".encode(), "text/html; charset=nonsense", "Ελλάδα"),
        ("Ελλάδα".encode(), "text/html", "Ελλάδα"),
        (b"caf\xe9", "text/html; charset=utf-8", "caf\ufffd"),
        (
            b'<meta charset="windows-1253"><p>' + "Ελλάδα".encode("cp1253"),
            "text/html",
            '<meta charset="windows-1253"><p>Ελλάδα',
        ),
    ],
    ids=["header", "quoted", "unknown", "none", "wrong", "meta"],
)
def test_text_is_by_the_charset_of_the_header_or_the_one_that_is_detected(
    body: bytes, header: str, text: str
) -> None:
    assert response(body, f"Content-Type: {header}").text() == text


def test_text_of_a_conversion_is_utf_8() -> None:
    assert record("naïve".encode() + b"\xff", "conversion", "text/plain").text() == "naïve\ufffd"
