"""Records of web archives by ranges: each once, the same as warcio gives, and what damage costs."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import fastwarc
import pytest
from warcio.archiveiterator import ArchiveIterator

from shoal.errors import FileError
from shoal.work.protocols import Unreadable
from shoal.work.records.archive_reader import ArchiveReader
from shoal.work.records.filters import Filter
from shoal.work.records.ranges import checked, cut
from shoal.work.records.reader import Reader
from shoal.work.records.record import LARGEST_BYTES, BadRecord, Extent, Range
from shoal.work.records.stored_files import StoredFiles

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "warc"
ARCHIVES = sorted(SHARED.glob("*/*"))
DIFFERENT = {
    "sparkwarc_sample.wet.gz": "Lines were stripped of CR, so each length is wrong, and all of it is one gzip member. "
    "warcio ends at the second record; FastWARC goes on at the next header, and loses those that a length runs into."
}


def record(
    body: bytes = b"",
    kind: str = "response",
    *,
    url: str = "http://a.b/",
    length: object = None,
    **headers: str,
) -> bytes:
    lines = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "Content-Type": "application/http; msgtype=response" if kind == "response" else "text/plain",
        "Content-Length": len(body) if length is None else length,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + body + b"\r\n\r\n"


def response(body: bytes, *headers: str, **options: Any) -> bytes:
    head = "".join(f"{each}\r\n" for each in ("HTTP/1.1 200 OK", *headers))
    return record(head.encode("latin-1") + b"\r\n" + body, **options)


class Unclosed(io.BytesIO):
    def close(self) -> None:
        pass


def compressed(kind: str, data: bytes, **options: Any) -> bytes:
    if kind == "plain":
        return data
    target = Unclosed()
    writer = getattr(fastwarc, f"{kind}Writer")(target, **options)
    writer.write(data)
    writer.close()
    return target.getvalue()


class Reading:
    """What came out of the ranges of a file."""

    def __init__(
        self,
        data: bytes,
        split: int = 1 << 40,
        wanted: Iterable[str] | None = None,
        keep: Filter | None = None,
        ranges: Sequence[Range] | None = None,
    ) -> None:
        self.records: list[tuple[Any, ...]] = []
        self.bad: list[BadRecord] = []
        self.extents: list[tuple[Range, Extent]] = []
        types = None if wanted is None else frozenset(wanted)
        for each in ranges or cut("f", len(data), split):
            reader = ArchiveReader(io.BytesIO(data), each, types, keep, self.bad.append)
            for found in reader:
                try:
                    body = found.body()
                except Unreadable as error:
                    self.bad.append(BadRecord("f", found.offset, str(error)))
                    continue
                server = None if found.http is None else found.http.get("server")
                kept = None if found.type == "request" else body
                self.records.append((found.type, found.url, found.status, server, kept))
            self.extents.append((each, reader.extent))

    def urls(self) -> list[str]:
        return [each[1] for each in self.records]


def by_warcio(data: bytes) -> list[tuple[Any, ...]]:
    found = []
    for each in ArchiveIterator(io.BytesIO(data)):
        is_request = each.rec_type == "request"
        http = None if is_request else each.http_headers
        body = None if is_request else each.content_stream().read()  # warcio gives the parts of a request.
        status = None if http is None else int(http.get_statuscode())
        server = None if http is None else http.get_header("server")
        url = each.rec_headers.get_header("WARC-Target-URI") or ""
        found.append((each.rec_type, url, status, server, body))
    return found


@pytest.mark.machine
@pytest.mark.parametrize("path", ARCHIVES or [None], ids=lambda path: path.name if path else "none")
def test_ranges_of_any_size_give_the_records_that_warcio_gives(path: Path | None) -> None:
    if path is None:
        pytest.skip(f"there are no archives in {SHARED}")
    data = path.read_bytes()
    reads = [Reading(data, split) for split in (64 * 1024, 1024 * 1024, 1 << 40)]
    assert reads[0].records == reads[1].records == reads[2].records
    assert all(checked(read.extents).again == [] for read in reads)
    if path.name in DIFFERENT:
        assert len(reads[0].records) == 60  # Of 69.
        assert [each.offset for each in reads[0].bad] == [0, 0]
    else:
        expected = by_warcio(data)
        assert len(reads[0].records) == len(expected) > 0
        for ours, theirs in zip(reads[0].records, expected, strict=True):
            assert ours == theirs
        assert [read.bad for read in reads] == [[], [], []]


KINDS = ["Gzip", "Zstd", "Lz4", "plain"]


def pages(count: int, size: int = 3000) -> list[bytes]:
    return [response(os.urandom(size // 2).hex().encode(), url=f"http://a.b/{n}") for n in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", [500, 4000, 1 << 20])
def test_each_record_is_in_one_range(kind: str, split: int) -> None:
    data = b"".join(compressed(kind, each) for each in pages(20))
    read = Reading(data, split)
    assert read.urls() == [f"http://a.b/{n}" for n in range(20)]
    assert read.bad == []
    assert checked(read.extents).again == []
    assert read.extents[0][1].first == 0
    assert read.extents[-1][1].end == len(data)


@pytest.mark.parametrize("is_packed", [False, True], ids=["dictionary", "packed-dictionary"])
def test_zstd_frames_are_read_with_the_dictionary_at_the_start_of_the_file(
    is_packed: bool, tmp_path: Path
) -> None:
    samples = pages(200, 400)
    trained = fastwarc.stream_io.zstd_train_dictionary_from_samples(samples, 2000)
    frame = compressed("Zstd", trained) if is_packed else trained
    head = b"\x5d\x2a\x4d\x18" + len(frame).to_bytes(4, "little") + frame
    bodies = [compressed("Zstd", each, dictionary=trained).partition(b"\x28\xb5\x2f\xfd") for each in samples]
    data = head + b"".join(magic + rest for _, magic, rest in bodies)
    read = Reading(data, 5000)
    assert read.bad == []
    assert read.urls() == [f"http://a.b/{n}" for n in range(200)]
    assert read.extents[0][1].first == len(head)
    (tmp_path / "f").write_bytes(data)
    last = Range("f", len(data) - len(bodies[-1][2]) - 4, len(data), is_exact=True)
    reader = Reader(StoredFiles(str(tmp_path)), last, "warc", None, None, print)
    assert [each.url for each in reader] == ["http://a.b/199"]


def test_a_gzip_file_of_one_member_is_one_range_and_that_is_said() -> None:
    data = gzip.compress(b"".join(pages(20)))
    read = Reading(data, len(data) // 4)
    assert read.urls() == [f"http://a.b/{n}" for n in range(20)]
    assert checked(read.extents) == ([], [Range("f", 0, len(data))])


@pytest.mark.parametrize("kind", ["Gzip", "plain"])
def test_an_archive_in_a_record_is_noticed_by_ranges_that_do_not_meet(kind: str) -> None:
    inner = b"".join(compressed(kind, each) for each in pages(40))
    parts = [*pages(5), response(inner, url="http://outer/"), *pages(5)]
    pack = gzip.compress if kind == "Gzip" else bytes
    data = b"".join(
        gzip.compress(each, 0) if pack is not bytes and b"outer" in each else pack(each) for each in parts
    )
    ranges = cut("f", len(data), len(inner) // 3)
    verdict = checked(Reading(data, ranges=ranges).extents)
    assert verdict.again == [Range("f", 0, len(data))]
    again = Reading(data, ranges=verdict.again)
    assert again.urls() == [
        *(f"http://a.b/{n}" for n in range(5)),
        "http://outer/",
        *(f"http://a.b/{n}" for n in range(5)),
    ]
    assert again.bad == []
    assert checked(again.extents).again == []


def test_only_wanted_types_that_the_filter_accepts_are_given() -> None:
    html, image = "Content-Type: Text/HTML; charset=utf-8", "Content-Type: image/png"
    data = b"".join(
        gzip.compress(each)
        for each in (
            record(b"x", "warcinfo"),
            response(b"1", html, url="http://www.uoa.gr:80/"),
            response(b"2", image, url="http://www.uoa.gr/"),
            response(b"3", html, url="http://example.com/"),
            record(b"4", "conversion", url="http://WWW.NTUA.GR/", WARC_Identified_Content_Language="ell,eng"),
        )
    )
    keep = Filter(host=["*.gr"], media_type=["text/*"], status=[200])
    assert [each[-1] for each in Reading(data, wanted=["response"], keep=keep).records] == [b"1"]
    assert [each[-1] for each in Reading(data, keep=Filter(language=["eng"])).records] == [b"4"]
    assert [each[-1] for each in Reading(data, keep=Filter(status=[404])).records] == []
    assert [each[0] for each in Reading(data, wanted=["warcinfo", "conversion"]).records] == [
        "warcinfo",
        "conversion",
    ]


GOOD = (
    gzip.compress(response(b"good", url="http://a.b/good")),
    gzip.compress(response(b"last", url="http://a.b/last")),
)


def broken(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


LONG = gzip.compress(response(os.urandom(3000).hex().encode(), url="http://a.b/bad"))
DAMAGES = {
    "flipped": broken(LONG, 1000),
    "checksum": broken(LONG, len(LONG) - 6),
    "truncated": LONG[:1000],
    "truncated in its header": LONG[:40],
    "garbage": b"garbage" * 100,
    "no archive": gzip.compress(b"hello\r\n\r\n" * 10),
    "length a little too long": gzip.compress(record(b"x" * 100, "resource", length=150)),
    "length far too long": gzip.compress(record(b"x" * 100, "resource", length=10**7)),
    "length too short": gzip.compress(record(b"x" * 100, "resource", length=50)),
    "length that is none": gzip.compress(record(b"x" * 100, "resource", length=-5)),
    "no headers": gzip.compress(b"WARC/1.0\r\n\r\nxx\r\n\r\n"),
    "no length": gzip.compress(b"WARC/1.0\r\nWARC-Type: resource\r\n\r\nxx\r\n\r\n"),
    "too large": gzip.compress(record(bytes(LARGEST_BYTES + 1), "resource"), 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("wanted", [None, ("response",)], ids=["all", "responses"])
def test_damage_costs_the_record_that_it_is_in(damage: bytes, wanted: Sequence[str] | None) -> None:
    data = GOOD[0] + damage + GOOD[1]
    read = Reading(data, wanted=wanted)
    assert [url for url in read.urls() if url != "http://a.b/"] == ["http://a.b/good", "http://a.b/last"]
    is_unseen = wanted is not None and len(damage) > 200_000  # Too large, and nobody wants it.
    assert [each.offset for each in read.bad] == ([] if is_unseen else [len(GOOD[0])])
    assert "\n" not in "".join(each.reason for each in read.bad)
    assert read.extents[0][1] == Extent(0, len(data))


@pytest.mark.parametrize("kind", ["Zstd", "Lz4"])
def test_damage_in_frames_costs_the_record_that_it_is_in(kind: str) -> None:
    good, bad, last = (compressed(kind, each) for each in pages(3))
    data = good + broken(bad, 9) + last
    read = Reading(data)
    assert read.urls() == ["http://a.b/0", "http://a.b/2"]
    assert [each.offset for each in read.bad] == [len(good)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [110, 10_000])
def test_the_last_record_of_a_range_has_nothing_that_is_not_its_own(kind: str, length: int) -> None:
    first, lying = (
        compressed(kind, pages(1)[0]),
        compressed(kind, record(b"x" * 100, "resource", length=length)),
    )
    read = Reading(first + lying)
    assert read.bad[0].offset == len(first)
    assert (
        read.urls() == ["http://a.b/0"] if kind != "Lz4" or length > 200 else ["http://a.b/0", "http://a.b/"]
    )


def test_a_plain_record_whose_length_lies_costs_itself() -> None:
    good, lying, last = pages(1)[0], record(b"x" * 100, "resource", length=130), pages(1)[0]
    read = Reading(good + lying + last)
    assert read.urls().count("http://a.b/0") == 2
    assert [each.offset for each in read.bad] == [len(good)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\0" * 10_000, "it does not begin with a record"),
        (gzip.compress(b"filedesc://x.arc 0.0.0.0 2008 text/plain 76\n"), "it is an ARC file"),
        (b"\x5d\x2a\x4d\x18\xff\xff\xff\x7f", "its zstd dictionary has"),
    ],
    ids=["empty", "zeros", "ARC", "dictionary"],
)
def test_a_file_without_a_record_is_one_bad_record(data: bytes, reason: str) -> None:
    read = Reading(data)
    assert [(each.offset, each.reason[: len(reason)]) for each in read.bad] == [(0, reason)]
    assert read.records == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [20, 100])
@pytest.mark.parametrize("split", [2000, 1 << 20])
def test_an_archive_that_breaks_off_says_so_and_its_ranges_meet(kind: str, missing: int, split: int) -> None:
    members = [compressed(kind, each) for each in pages(10)]
    data = b"".join(members)[: -missing - (4 if kind == "plain" else 0)]
    read = Reading(data, split, wanted=["response"])
    assert read.urls() == [f"http://a.b/{n}" for n in range(9)]
    assert [each.offset for each in read.bad] == [sum(map(len, members[:9]))]
    assert checked(read.extents).again == []


@pytest.mark.parametrize("size", [3000, 3_000_000], ids=["between records", "in a record"])
@pytest.mark.parametrize(
    "error", [FileError("the bucket is gone"), ConnectionResetError("the bucket is gone")], ids=repr
)
def test_an_error_of_the_storage_is_not_taken_for_damage(size: int, error: Exception) -> None:
    class Failing(io.BytesIO):
        has_failed = False

        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 100_000 and not self.has_failed:
                self.has_failed = True
                raise error
            return super().read(size)

    data = b"".join(gzip.compress(each, 1) for each in pages(600_000 // size + 1, size))
    reader = ArchiveReader(Failing(data), Range("f", 0, len(data)), None, None, print)
    with pytest.raises(type(error), match="the bucket is gone"):
        [record.body() for record in reader]


@pytest.mark.parametrize("kind", ["Gzip", "Zstd", "Lz4"])
def test_many_records_in_one_frame_are_all_read(kind: str) -> None:
    for size in (200, 60_000):
        data = compressed(kind, b"".join(pages(20, size))) + compressed(kind, pages(1, size)[0])
        read = Reading(data, len(data) // 3)
        assert read.urls() == [*(f"http://a.b/{n}" for n in range(20)), "http://a.b/0"]
        assert (read.bad, checked(read.extents).again) == ([], [])


@pytest.mark.parametrize("kind", ["Gzip", "Zstd", "Lz4"])
@pytest.mark.parametrize("size", [700, 70_000])
def test_records_in_several_frames_are_whole(kind: str, size: int) -> None:
    data = b"".join(pages(20))
    packed = b"".join(compressed(kind, data[at : at + size]) for at in range(0, len(data), size))
    for split in (4000, 1 << 20):
        read = Reading(packed, split)
        assert read.records == Reading(data).records
        assert (read.bad, checked(read.extents).again) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_at_the_end_of_a_file_are_said_and_cost_nothing(kind: str) -> None:
    data = b"".join(compressed(kind, each) for each in pages(10))
    for split in (2000, 1 << 20):
        read = Reading(data + bytes(5000), split)
        assert read.urls() == [f"http://a.b/{n}" for n in range(10)]
        assert [each.offset for each in read.bad] in ([len(data)], [len(data) - len(pages(1)[0])])
        assert checked(read.extents).again == []
