"""Ranges from what an input names: patterns, lists of files, indexes of records; and files on a web server."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from servers.hdfs import HdfsFolder
from servers.seaweedfs import Bucket
from shoal.errors import NotFound, SpecError
from shoal.files import open_storage
from shoal.work.records.file_lists import Inputs, file_ranges, record_ranges
from shoal.work.records.ranges import checked
from shoal.work.records.reader import Reader
from shoal.work.records.record import BadRecord, Range
from shoal.work.records.stored_files import ReadAhead, StoredFiles

WHOLE = 1 << 40


def member(number: int) -> bytes:
    body = f"page {number} ".encode() * 50
    headers = [
        "WARC-Type: conversion",
        f"WARC-Target-URI: http://a.b/{number}",
        f"Content-Length: {len(body)}",
    ]
    return gzip.compress("\r\n".join(["WARC/1.0", *headers, "", ""]).encode() + body + b"\r\n\r\n")


MEMBERS = [member(number) for number in range(30)]
URLS = [f"http://a.b/{number}" for number in range(30)]


def urls(inputs: Inputs, ranges: list[Range]) -> tuple[list[str], list[BadRecord]]:
    opener, bad, extents = StoredFiles(inputs.folder, inputs.endpoint), list[BadRecord](), []
    found = []
    for each in ranges:
        reader = Reader(opener, each, "wet", frozenset(["conversion"]), None, bad.append)
        found += [record.url for record in reader]
        extents.append((each, reader.extent))
    assert checked(extents).again == []
    return found, bad


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    (tmp_path / "crawl" / "year=2024").mkdir(parents=True)
    (tmp_path / "crawl" / "a.wet.gz").write_bytes(b"".join(MEMBERS[:10]))
    (tmp_path / "crawl" / "year=2024" / "b.wet.gz").write_bytes(b"".join(MEMBERS[10:]))
    (tmp_path / "crawl" / "_SUCCESS").touch()
    return tmp_path


def test_several_targets_are_files_folders_and_patterns(crawl: Path) -> None:
    inputs = Inputs(["crawl/a.wet.gz", "crawl/year=*/*.gz"], str(crawl))
    ranges = [*file_ranges(inputs, 500)]
    assert len(ranges) > 4
    assert urls(inputs, ranges) == (URLS, [])
    assert sorted(urls(inputs, [*file_ranges(Inputs(["crawl"], str(crawl)), WHOLE)])[0]) == sorted(URLS)
    with pytest.raises(NotFound):
        list(file_ranges(Inputs(["crawl/*.txt"], str(crawl)), WHOLE))


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_list_of_paths_names_files(crawl: Path, is_packed: bool) -> None:
    text = f"# mine\ncrawl/a.wet.gz\n\n{crawl}/crawl/year=2024/b.wet.gz\n".encode()
    name = "wet.paths.gz" if is_packed else "wet.paths"
    (crawl / name).write_bytes(gzip.compress(text) if is_packed else text)
    inputs = Inputs([name], str(crawl))
    assert urls(inputs, [*file_ranges(inputs, WHOLE)]) == (URLS, [])
    (crawl / "lists").mkdir()
    (crawl / "lists" / "one.paths").write_text("a.wet.gz")
    inputs = Inputs(["lists/one.paths"], str(crawl), base="crawl")
    assert urls(inputs, [*file_ranges(inputs, WHOLE)]) == (URLS[:10], [])
    (crawl / "lists" / "one.paths").write_text("a.wet.gz\ngone.wet.gz")
    assert [each.path for each in file_ranges(inputs._replace(most_listed=1), WHOLE)] == ["a.wet.gz"]
    (crawl / "wet.paths").write_text("../../etc/passwd")
    with pytest.raises(SpecError, match="leads out of"):
        list(file_ranges(Inputs(["wet.paths"], str(crawl)), WHOLE))


def places(count: int) -> list[dict[str, object]]:
    starts = [sum(map(len, MEMBERS[:number])) for number in range(count)]
    return [
        {"filename": "crawl/a.wet.gz", "offset": start, "length": len(MEMBERS[number])}
        for number, start in enumerate(starts)
    ]


def cdxj(rows: list[dict[str, object]]) -> str:
    rows = [{name: str(value) for name, value in row.items()} for row in rows]
    return "".join(f"gr,uoa)/ 20240518 {json.dumps({'status': '200', **row})}\n" for row in rows)


def cdx(rows: list[dict[str, object]]) -> str:
    lines = [
        f"gr,uoa)/ 2024 http://uoa.gr/ {row['length']} {row['offset']} {row['filename']}" for row in rows
    ]
    return "\n".join([" CDX N b a S V g", *lines])


def table(rows: list[dict[str, object]]) -> str:
    return "\n".join(
        [
            "url,filename,offset,length",
            *(f"x,{row['filename']},{row['offset']},{row['length']}" for row in rows),
        ]
    )


@pytest.mark.parametrize("form", [cdxj, cdx, table], ids=["CDXJ", "CDX", "CSV"])
def test_an_index_names_records(crawl: Path, form: object) -> None:
    assert callable(form)
    wanted = [places(10)[number] for number in (7, 2, 3)]
    (crawl / "index").write_bytes(gzip.compress(form(wanted).encode()))
    inputs = Inputs(["index"], str(crawl))
    assert urls(inputs, [*record_ranges(inputs, print)]) == ([URLS[number] for number in (7, 2, 3)], [])


def test_a_table_of_common_crawl_is_an_index(crawl: Path) -> None:
    rows = [
        {f"warc_{name if name == 'filename' else f'record_{name}'}": value for name, value in row.items()}
        for row in places(4)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), crawl / "index.parquet")
    inputs = Inputs(["index.parquet"], str(crawl))
    assert urls(inputs, [*record_ranges(inputs, print)]) == (URLS[:4], [])


def test_places_that_are_no_records_are_bad(crawl: Path) -> None:
    wrong = [
        {"filename": "../x", "offset": 0, "length": 9},
        {"filename": "crawl/a.wet.gz", "offset": "x", "length": 9},
        {"filename": "crawl/a.wet.gz", "offset": 0},
        {"filename": "crawl/a.wet.gz", "offset": 5, "length": 100},
        {"filename": "crawl/a.wet.gz", "offset": 10**6, "length": 100},
        {"filename": "crawl/a.wet.gz", "offset": 0, "length": 10**12},
        {"filename": "crawl/missing", "offset": 0, "length": 10},
    ]
    (crawl / "index").write_text(cdxj([*wrong, *places(1)]) + "{\n")
    inputs = Inputs(["index"], str(crawl))
    unlisted: list[BadRecord] = []
    found, bad = urls(inputs, [*record_ranges(inputs, unlisted.append)])
    assert found == URLS[:1]
    assert [each.offset for each in unlisted] == [1, 2, 3, 9]
    assert [each.reason.partition(" ")[0] for each in bad] == ["no", "the", "it", "vanished"]


class Web(BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if content is None:
            self.send_error(404)
            return
        start, end = (
            (int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content)))
            if asked
            else (0, len(content))
        )
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[start:end])

    do_HEAD = do_GET  # noqa: N815 - a name of the library

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    Web.files = {
        "/crawl-data/CC-MAIN-2024-22/wet.paths.gz": gzip.compress(
            b"crawl-data/a.wet.gz\ncrawl-data/b.wet.gz\n"
        ),
        "/crawl-data/a.wet.gz": b"".join(MEMBERS[:10]),
        "/crawl-data/b.wet.gz": b"".join(MEMBERS[10:]),
        "/cc-index/cdx-00000": cdxj(
            [{**row, "filename": "crawl-data/a.wet.gz"} for row in places(3)]
        ).encode(),
        "/bad.paths": b"/etc/passwd\n",
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_files_of_a_web_server_are_read_by_lists_and_by_indexes(web: str, tmp_path: Path) -> None:
    inputs = Inputs([f"{web}/crawl-data/CC-MAIN-2024-22/wet.paths.gz"], str(tmp_path))
    ranges = [*file_ranges(inputs, 1000)]
    assert len(ranges) > 2
    assert urls(inputs, ranges) == (URLS, [])
    inputs = Inputs([f"{web}/cc-index/cdx-00000"], str(tmp_path))
    assert urls(inputs, [*record_ranges(inputs, print)]) == (URLS[:3], [])
    with pytest.raises(SpecError, match="a file of this machine"):
        list(file_ranges(Inputs([f"{web}/bad.paths"], str(tmp_path)), 1000))


def test_a_file_of_another_machine_is_read_ahead_in_growing_pieces() -> None:
    data = bytes(range(256)) * 40_000
    asked: list[tuple[int, int]] = []

    def fetch(start: int, length: int) -> bytes:
        asked.append((start, length))
        return data[start : start + length]

    with ReadAhead(fetch, len(data), 4_000_000, lambda: None) as file:
        assert file.read(10) == data[:10]
        assert len(asked) == 1
        file.seek(1_000_000)
        found = b""
        while len(found) < 3_900_000:
            found += file.read(65536)
        assert found == data[1_000_000 : 1_000_000 + len(found)]
        assert max(start for start, _ in asked) < 4_000_000
        file.seek(-10, 2)
        assert file.read() == data[-10:]
    lengths = [length for _, length in asked]
    assert lengths[1:4] == [lengths[1], 2 * lengths[1], 4 * lengths[1]]


def stored(url: str, folder: Path) -> None:
    """A crawl in a storage is read by ranges, and a file that is written anew is noticed."""
    rows = b"".join(MEMBERS) * 100
    storage = open_storage(url)
    storage.write("crawl/a b.wet.gz", rows)
    inputs = Inputs([f"{url}/crawl/*.gz"], str(folder))
    ranges = [*file_ranges(inputs, len(rows) // 3)]
    assert urls(inputs, ranges) == (URLS * 100, [])
    storage.write("crawl/a b.wet.gz", MEMBERS[0])
    assert urls(inputs, ranges[:1])[1] == [
        BadRecord(f"{url}/crawl/a b.wet.gz", 0, "the file was changed since it was listed")
    ]


@pytest.mark.s3
def test_archives_in_a_bucket_are_read_by_ranges(bucket: Bucket, tmp_path: Path) -> None:
    stored(bucket.url, tmp_path)


@pytest.mark.hdfs
def test_archives_in_an_hdfs_are_read_by_ranges(hdfs_folder: HdfsFolder, tmp_path: Path) -> None:
    stored(hdfs_folder.url, tmp_path)
