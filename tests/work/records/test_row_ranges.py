"""Rows by ranges: each once, whatever the format, the size of the ranges, and how the file is compressed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from shoal.work.protocols import Unreadable
from shoal.work.records.filters import Filter
from shoal.work.records.ranges import checked, cut
from shoal.work.records.reader import Reader
from shoal.work.records.record import LARGEST_BYTES, BadRecord, Range
from shoal.work.records.stored_files import StoredFiles


class Memory:
    """See `Opener`: one file, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def path(self, range_: Range) -> str:
        return range_.path

    def open(self, range_: Range) -> io.BytesIO:
        return io.BytesIO(self._data)


def rows_of(data: bytes, format_: str, split: int, path: str = "f") -> tuple[list[Any], list[BadRecord], Any]:
    found, bad, extents = [], [], []
    for each in cut(path, len(data), split):
        reader = Reader(Memory(data), each, format_, None, None, bad.append)
        for record in reader:
            try:
                found.append(dict(record.row))
            except Unreadable as error:
                reader.tell(record, str(error))
        extents.append((each, reader.extent))
    return found, bad, checked(extents)


def members(data: bytes, size: int) -> bytes:
    return b"".join(gzip.compress(data[at : at + size]) for at in range(0, len(data), size))


TEXTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30), max_size=30)
PACKINGS: dict[str, Callable[[bytes, int], bytes]] = {
    "plain": lambda data, _: data,
    "one member": lambda data, _: gzip.compress(data),
    "members": members,
}


@pytest.mark.parametrize("pack", PACKINGS.values(), ids=PACKINGS)
@example(texts=["\ufeff", "a"], split=10, size=2, ends=True)
@given(texts=TEXTS, split=st.integers(1, 300), size=st.integers(1, 100), ends=st.booleans())
@settings(max_examples=60, deadline=None)
def test_each_line_is_in_one_range(
    pack: Callable[[bytes, int], bytes], texts: Sequence[str], split: int, size: int, ends: bool
) -> None:
    data = "\n".join(texts).encode() + (b"\n" if ends and texts else b"")
    assume(data != "\ufeff".encode())
    shown = data.removeprefix(b"\xef\xbb\xbf")
    expected = [line.decode() for line in shown.removesuffix(b"\n").split(b"\n")] if shown else []
    found, bad, verdict = rows_of(pack(data, size), "text", split)
    assert [row["text"] for row in found] == expected
    assert bad == []
    assert verdict.again == []


@given(
    rows=st.lists(st.tuples(st.text(st.sampled_from('ab,"\n '), max_size=8), st.integers(0, 9)), max_size=20),
    split=st.integers(5, 100),
)
@settings(max_examples=100, deadline=None)
def test_rows_of_csv_are_whole_or_the_file_is_read_again(rows: Sequence[tuple[str, int]], split: int) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([("name", "number"), *rows])
    data = text.getvalue().encode()
    expected = [{"name": name, "number": str(number)} for name, number in rows]
    found, bad, verdict = rows_of(data, "csv", split)
    if verdict.again:
        found, bad, verdict = rows_of(data, "csv", len(data))
    assert (found, bad, verdict.again) == (expected, [], [])
    assert rows_of(gzip.compress(data), "csv", split)[0] == expected


@pytest.mark.parametrize("split", [40, 1 << 20])
def test_rows_that_are_wrong_cost_themselves(split: int) -> None:
    lines = [b'{"a": 1}', b"", b"{", b"[1]", b'{"a": "\xff"}', b"[" * 100_000, b'{"a": 2}']
    found, bad, _ = rows_of(b"\n".join(lines), "jsonl", split)
    assert found == [{"a": 1}, {"a": 2}]
    assert [each.offset for each in bad] == [10, 12, 16, 27]
    assert rows_of(b"a,b\n1,2\n3\n4,5\n", "csv", split)[0] == [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}]
    assert rows_of(b"a;b\n1;2\n", "csv", split)[0] == [{"a": "1", "b": "2"}]


def test_a_line_that_is_too_long_costs_itself() -> None:
    data = b"first\n" + b"x" * (LARGEST_BYTES + 1) + b"\nlast"
    for packed in (data, gzip.compress(data, 1)):
        found, bad, _ = rows_of(packed, "text", 1 << 40)
        assert [row["text"] for row in found] == ["first", "last"]
        assert len(bad) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_member_costs_its_lines(damage: str) -> None:
    lines = [os.urandom(20).hex() for _ in range(1000)]
    parts = [
        gzip.compress("".join(f"{line}\n" for line in lines[at : at + 100]).encode())
        for at in range(0, 1000, 100)
    ]
    broken = bytearray(parts[4])
    broken[500] ^= 0xFF
    parts[4] = bytes(broken) if damage == "flipped" else parts[4][:500]
    data = b"".join(parts)
    for split in (1000, 1 << 20):
        found, bad, _ = rows_of(data, "text", split)
        seen = {row["text"] for row in found}
        assert seen >= {*lines[:400], *lines[501:]}
        assert not seen - {*lines}
        assert [each.offset for each in bad] == [sum(map(len, parts[:4]))]


def test_rows_of_parquet_come_by_row_groups_with_the_columns_of_their_folders() -> None:
    table = pyarrow.table({"a": range(1000), "text": [str(n) * 10 for n in range(1000)]})
    target = io.BytesIO()
    pyarrow.parquet.write_table(table, target, row_group_size=100)
    data = target.getvalue()
    for split in (500, 3000, 1 << 20):
        found, bad, verdict = rows_of(data, "parquet", split, "crawl/year=2024/lang=el%20x/f.parquet")
        assert [row["a"] for row in found] == [*range(1000)]
        assert found[0] == {"a": 0, "text": "0" * 10, "year": "2024", "lang": "el x"}
        assert (bad, verdict.again) == ([], [])
    found, bad, _ = rows_of(data[:-10], "parquet", 1 << 20)
    assert (found, len(bad)) == ([], 1)


def test_a_file_that_was_changed_or_removed_since_it_was_listed_is_said(tmp_path: Path) -> None:
    from shoal.files.local import LocalStorage
    from shoal.work.inputs.places import mark_of

    path = tmp_path / "lines.txt"
    path.write_text("a\nb\n")
    range_ = Range("lines.txt", 0, 4, mark_of(LocalStorage(str(tmp_path)).stat("lines.txt")))
    opener = StoredFiles(str(tmp_path))

    def read(each: Range) -> tuple[list[str], list[str]]:
        bad: list[BadRecord] = []
        return [record.text() for record in Reader(opener, each, "text", None, None, bad.append)], [
            reason for _, _, reason in bad
        ]

    assert read(range_) == (["a", "b"], [])
    path.write_text("c\nd\ne\n")
    assert read(range_) == ([], ["the file was changed since it was listed"])
    path.unlink()
    assert read(range_) == ([], ["vanished since it was listed"])
    path.mkdir()
    assert read(range_._replace(mark="")) == ([], ["vanished since it was listed"])


def test_rows_are_filtered_by_the_host_in_their_address() -> None:
    data = b'{"url": "http://a.gr/x"}\n{"url": "http://a.com/"}\n{\n{}\n'
    bad: list[BadRecord] = []
    reader = Reader(Memory(data), Range("f", 0, len(data)), "jsonl", None, Filter(host=["*.gr"]), bad.append)
    assert [record.url for record in reader] == ["http://a.gr/x"]
    assert [each.offset for each in bad] == [data.index(b"{\n")]


def test_json_of_a_row_is_parsed_once_and_text_is_its_column() -> None:
    data = json.dumps({"url": "http://a.b/", "text": "héllo"}).encode()
    (record,) = Reader(Memory(data), Range("f", 0, len(data)), "jsonl", None, None, print)
    assert record.row is record.row
    assert (record.type, record.url, record.text(), record.body()) == (
        "row",
        "http://a.b/",
        "héllo",
        "héllo".encode(),
    )
    assert (record.http, record.status, record.media_type, record.headers.get("a")) == (None, None, "", None)
