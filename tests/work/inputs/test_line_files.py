"""Lines as inputs: driver and worker agree on what a line is, whatever is in the file, and on which ones are left."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from itertools import compress, cycle, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.seaweedfs import Bucket
from shoal.errors import SpecError
from shoal.files import open_storage
from shoal.spec.shared_sections import Input
from shoal.work.inputs import Changes, opening
from shoal.work.inputs import line_files as lines_module
from shoal.work.inputs.line_files import scan
from shoal.work.protocols import Unreadable

BOM = b"\xef\xbb\xbf"
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=5)
KEPT = st.lists(st.booleans(), min_size=1, max_size=10)
"""Which items were recorded, in turn. How many there are depends on how fast the thread is."""
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n"])
TEXTS = st.text(st.sampled_from("abä \t\r"), max_size=8).map(str.encode)
VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 99), max_size=3)
OBJECTS = VALUES.map(lambda value: json.dumps(value).encode())
BLANKS = st.text(st.sampled_from(" \t\r"), max_size=5).map(str.encode)


@st.composite
def contents(draw: Any, lines: Any) -> bytes:
    body = b"".join(draw(st.lists(st.tuples(lines, ENDS).map(b"".join), max_size=20)))
    return (BOM if draw(st.booleans()) else b"") + body + draw(lines)


def texts_of(content: bytes) -> list[bytes]:
    """The lines of a text, the plain way."""
    content = content.removeprefix(BOM)
    lines = content.split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines[:-1] if lines[-1] == b"" else lines)]


def objects_of(content: bytes) -> list[Any]:
    return [json.loads(line) for line in texts_of(content) if line.strip(b" \t\r\n")]


@settings(max_examples=150)
@given(st.lists(contents(TEXTS), min_size=1, max_size=3), SIZES, SIZES, KEPT, st.booleans())
def test_every_line_of_a_text_comes_once_and_after_a_resume_the_rest(
    inputs_at: Any, files: list[bytes], sizes: list[int], later: list[int], kept: list[bool], ordered: bool
) -> None:
    expected = {
        (f"in/{number}", row): line.decode()
        for number, content in enumerate(files)
        for row, line in enumerate(texts_of(content))
    }
    check(inputs_at, Input(text="in"), files, sizes, later, kept, ordered, expected)


@settings(max_examples=150)
@given(
    st.lists(contents(st.one_of(OBJECTS, OBJECTS, BLANKS)), min_size=1, max_size=3),
    SIZES,
    SIZES,
    KEPT,
    st.booleans(),
)
def test_every_object_comes_once_and_after_a_resume_the_rest(
    inputs_at: Any, files: list[bytes], sizes: list[int], later: list[int], kept: list[bool], ordered: bool
) -> None:
    expected = {
        (f"in/{number}", row): value
        for number, content in enumerate(files)
        for row, value in enumerate(objects_of(content))
    }
    check(inputs_at, Input(jsonl="in"), files, sizes, later, kept, ordered, expected)


def check(
    inputs_at: Any,
    input_: Input,
    files: list[bytes],
    sizes: list[int],
    later: list[int],
    kept: list[bool],
    ordered: bool,
    expected: dict[Any, Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").mkdir()
        for number, content in enumerate(files):
            Path(folder, "in", str(number)).write_bytes(content)
        inputs = inputs_at(folder)
        items = inputs.items(input_, sizes, ordered=ordered)
        keys = inputs.keys(input_, items)
        assert len(set(keys)) == len(keys)
        assert dict(zip(keys, inputs.read(input_, items), strict=True)) == expected
        if ordered:
            assert keys == sorted(keys)
        known = list(compress(items, cycle(kept)))
        rest = inputs.items(input_, later, known, ordered=ordered)
        again = inputs.keys(input_, [*known, *rest])
        assert sorted(again) == sorted(expected)
        assert inputs.read(input_, rest) == [expected[key] for key in inputs.keys(input_, rest)]


@settings(max_examples=200)
@given(contents(st.one_of(OBJECTS, BLANKS)), st.booleans(), st.data())
def test_lines_do_not_depend_on_how_a_file_comes_in_pieces(
    content: bytes, is_json: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(3, max(3, len(content))))) | {0, len(content)})
    pieces = [content[begin:end] for begin, end in pairwise(cuts)]
    found = [
        content[begin:end]
        for begins, ends in scan(iter(pieces), 0, is_json=is_json)
        for begin, end in zip(begins, ends, strict=True)
    ]
    if is_json:
        assert [json.loads(line) for line in found] == objects_of(content)
    else:
        assert [line.removesuffix(b"\n").removesuffix(b"\r") for line in found] == texts_of(content)


def test_a_file_of_many_pieces_is_counted_right(inputs: Any, tmp_path: Path) -> None:
    """Twenty megabytes: more than two of the pieces in which it is read, and items across them."""
    lines = [f"{number}:{'x' * (number % 97)}" for number in range(400_000)]
    (tmp_path / "large.txt").write_text("\n".join(lines))
    input_ = Input(text="large.txt")
    items = inputs.items(input_, [70_001, 3])
    assert inputs.read(input_, items) == lines
    assert [row for _, row in inputs.keys(input_, items)] == list(range(400_000))


def test_an_item_has_lines_from_several_pieces_of_its_file(inputs: Any, tmp_path: Path, until: Any) -> None:
    (tmp_path / "large.txt").write_text(("x" * 999 + "\n") * 20_000)
    found = inputs.listing(Input(text="large.txt"))
    until(found.complete)
    params = found.take(20_000)
    assert params is not None
    assert params["rows"] == 20_000
    assert found.finished()


def test_an_item_is_not_larger_than_a_worker_can_hold(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.work.inputs import line_reader

    monkeypatch.setattr(lines_module, "LARGEST_BYTES", 100)
    monkeypatch.setattr(line_reader, "LARGEST_BYTES", 100)
    lines = ["short", "x" * 60, "y" * 60, "z" * 300, "last"]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    input_ = Input(text="a.txt")
    items = inputs.items(input_, [10])
    assert [params["rows"] for params in items] == [2, 1, 1, 1]
    *first, too_long, last = inputs.read(input_, items)
    assert first == lines[:3]
    assert last == "last"
    assert isinstance(too_long, Unreadable)
    assert "a line of 301 bytes" in str(too_long)


def test_what_is_wrong_with_a_line_is_an_error_of_that_line(inputs: Any, tmp_path: Path) -> None:
    lines = [
        b'{"a": 1}', b'{"a": ', b"[1]", b"3", b'{"a": "\xff"}', b"[" * 100_000, b'{"a": %s}' % (b"9" * 5000),
        b'{"b": 2}', b'{"a": 4}',
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    input_ = Input(jsonl="a.jsonl", column=("a",))
    first, *wrong, last = inputs.read(input_, inputs.items(input_))
    assert (first, last) == ({"a": 1}, {"a": 4})
    assert [type(each) for each in wrong] == [Unreadable] * 7
    said = [str(each) for each in wrong]
    assert said[0] == "not valid JSON: Expecting value at character 7"
    assert said[1:3] == ["not a JSON object, but a list", "not a JSON object, but a number"]
    assert said[3] == "not UTF-8: byte 0xff at 8 of the line"
    assert "not usable JSON" in said[4]
    assert "not usable JSON" in said[5]
    assert said[6] == "it has no 'a'. Choose from: b."
    assert not any("\n" in each for each in said)


def test_a_line_that_is_no_text_is_an_error_of_that_line(inputs: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n\xff\n\nfine too")
    input_ = Input(text="a.txt")
    fine, wrong, empty, too = inputs.read(input_, inputs.items(input_))
    assert (fine, empty, too) == ("fine", "", "fine too")
    assert isinstance(wrong, Unreadable)


def test_keys_of_objects_are_in_the_output_and_not_in_the_row(inputs: Any, tmp_path: Path) -> None:
    rows = [{"id": 1, "lang": "de", "x": 5}, {"id": "two", "x": 6}, {"id": "\ud800", "lang": None, "x": 7}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nnonsense\n")
    input_ = Input(jsonl="a.jsonl", key=("id", "lang"))
    items = inputs.items(input_)
    keys = [(1, "de"), ("two", None), ("\\ud800", None), (None, None)]
    assert inputs.keys(input_, items) == keys
    assert inputs.read(input_, items)[:3] == [{"x": 5}, {"x": 6}, {"x": 7}]
    both = Input(jsonl="a.jsonl", key=("id",), column=("id", "x"))
    assert inputs.read(both, items)[0] == {"id": 1, "x": 5}


@pytest.mark.parametrize("name", ["a.txt.zst", "a.txt"])
def test_files_that_are_packed_otherwise_are_to_be_unpacked(
    inputs: Any, tmp_path: Path, failure: Any, name: str
) -> None:
    (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfdxxxx")
    error = failure(inputs.listing(Input(text=name)))
    assert isinstance(error, SpecError)
    assert f"{name} is compressed (Zstandard)" in str(error)
    assert error.hint is not None
    assert "Unpack" in error.hint


@pytest.mark.parametrize("sizes", [[1], [7], [3, 100, 1]], ids=str)
def test_gzipped_lines_are_lines(inputs: Any, tmp_path: Path, sizes: list[int]) -> None:
    lines = [f"line {number} é" * (number % 5 + 1) for number in range(100)]
    data = "\ufeff" + "\n".join(lines)
    half = len(data) // 2
    (tmp_path / "a.gz").write_bytes(
        b"".join(gzip.compress(each.encode()) for each in (data[:half], data[half:]))
    )
    (tmp_path / "b").write_text("plain\n")
    input_ = Input(text="*")
    items = inputs.items(input_, sizes, ordered=True)
    assert inputs.read(input_, items) == [*lines, "plain"]
    assert inputs.keys(input_, items) == [*(("a.gz", row) for row in range(100)), ("b", 0)]
    some, rest = items[::2], items[1::2]
    assert sorted(inputs.read(input_, inputs.items(input_, [5], known=some))) == sorted(
        inputs.read(input_, rest)
    )


def test_one_reader_of_gzipped_lines_takes_items_in_any_order(inputs: Any, tmp_path: Path) -> None:
    lines = [{"id": number} for number in range(50)]
    (tmp_path / "a.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    input_ = Input(jsonl="a.gz")
    items = inputs.items(input_, [3])
    opened = opening(input_, str(tmp_path))
    for order in (items, items[::-1], items[::2]):
        found = [opened(params).read(0)["id"] for params in order]
        assert found == [params["start"] for params in order]


def test_gzipped_lines_that_break_off_are_given_up_to_there_and_an_error(inputs: Any, tmp_path: Path) -> None:
    data = "".join(f"{number} {os.urandom(50).hex()}\n" for number in range(60_000)).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(data, 1)[:-1000])
    input_ = Input(text="a.gz")
    items = inputs.items(input_, [20_000])
    assert [each.get("broken") for each in items[:-1]] == [None] * (len(items) - 1)
    assert sum(each["rows"] for each in items[:-1]) > 30_000
    assert "a.gz cannot be unpacked" in items[-1]["broken"]
    (tmp_path / "a.gz").write_bytes(b"")
    *_, last = inputs.read(input_, items[:1])
    assert isinstance(last, Unreadable)


def test_lines_that_were_added_are_given_and_the_others_still_read(inputs: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    input_ = Input(text="a.txt")
    items = inputs.items(input_, [2])
    path.write_text("one\ntwo\nthree\nfour\nfive")
    found = inputs.listing(input_, items)
    rest = []
    while not found.finished():
        rest += [each for each in [found.take(10)] if each]
    assert found.changes() == Changes(new=2, changed=3, gone=0)
    assert inputs.read(input_, [*items, *rest]) == ["one", "two", "three", "four", "five"]
    assert [row for _, row in inputs.keys(input_, rest)] == [3, 4]


@pytest.mark.parametrize(
    "content",
    ["on\ntwo\nthree\n", "one\ntwo and more\nthree\n", "onetwo\nthree\n", "", "one\n\nwo\nthree\n", "one\ntw\n\nthree"],
    ids=["shifted", "longer", "joined", "emptied", "one more", "another end"],
)  # fmt: skip
def test_lines_that_are_no_longer_where_they_were_are_errors(
    inputs: Any, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    input_ = Input(text="a.txt")
    items = inputs.items(input_, [2])
    path.write_text(content)
    assert [str(each) for each in inputs.read(input_, items[:1])] == [
        "the file was changed since it was listed"
    ] * 2


def test_what_is_now_the_middle_of_a_line_is_an_error(inputs: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    input_ = Input(text="a.txt")
    items = inputs.items(input_, [2])
    path.write_text("one\ntwo three\n")
    assert [type(each) for each in inputs.read(input_, items[1:])] == [Unreadable]


def test_a_last_line_that_went_on_is_an_error(inputs: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo")
    input_ = Input(text="a.txt")
    items = inputs.items(input_)
    path.write_text("one\ntwo and more\n")
    assert [type(each) for each in inputs.read(input_, items)] == [Unreadable] * 2


def test_a_file_that_became_shorter_or_went_is_counted(inputs: Any, tmp_path: Path, until: Any) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "in" / name).write_text("1\n2\n3\n4\n")
    input_ = Input(text="in")
    items = inputs.items(input_)
    (tmp_path / "in/a").unlink()
    (tmp_path / "in/b").write_text("1\n")
    found = inputs.listing(input_, items)
    until(found.complete)
    assert found.changes() == Changes(new=0, changed=1, gone=7)
    assert str(inputs.read(input_, [items[0]])[0])


def test_a_file_that_is_all_known_is_not_read_again(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n")
    input_ = Input(text="a.txt")
    items = inputs.items(input_, [2])
    opened = []
    monkeypatch.setattr(lines_module, "_pieces", lambda *_: opened.append(1) or iter(()))
    found = inputs.listing(input_, items)
    until(found.complete)
    assert found.changes() == Changes()
    assert opened == []


@pytest.mark.s3
def test_lines_in_a_bucket_are_read_by_ranges(inputs: Any, bucket: Bucket) -> None:
    lines = [json.dumps({"number": number, "text": "ä" * 50}) for number in range(30_000)]
    open_storage(bucket.url).write("data/a b.jsonl", "\r\n".join(lines).encode())
    input_ = Input(jsonl=f"{bucket.url}/data/*.jsonl", column=("number",))
    items = inputs.items(input_, [7000])
    assert [row["number"] for row in inputs.read(input_, items)] == list(range(30_000))
    assert inputs.keys(input_, items[:1])[1] == (f"{bucket.url}/data/a b.jsonl", 1)
