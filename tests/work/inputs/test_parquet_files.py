"""Rows of Parquet files as inputs: each once, within row groups, by path and row or by key, and what goes wrong."""

from __future__ import annotations

import datetime
import tempfile
from itertools import accumulate, compress, cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.seaweedfs import Bucket
from shoal.errors import SpecError, Unreachable
from shoal.files import open_storage
from shoal.spec.shared_sections import Input
from shoal.work.inputs import Changes, opening, parquet_files, row_reader
from shoal.work.protocols import Unreadable

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)
KEPT = st.lists(st.booleans(), min_size=1, max_size=10)
"""Which items were recorded, in turn. How many there are depends on how fast the thread is."""


def write(path: Path, groups: list[int], **options: Any) -> None:
    """A file with row groups of these lengths; the cells are the number of the row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("id", pa.string()), ("x", pa.int64()), ("y", pa.float32())])
    with pq.ParquetWriter(path, schema, **options) as writer:
        for start, rows in zip([0, *accumulate(groups)], groups, strict=False):
            numbers = range(start, start + rows)
            columns = {"id": [f"{path.name}:{n}" for n in numbers], "x": list(numbers), "y": list(numbers)}
            writer.write_table(pa.table(columns, schema=schema), row_group_size=max(1, rows))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=3),
    SIZES,
    SIZES,
    st.sampled_from([10, 200, 1 << 26]),
    st.booleans(),
    KEPT,
    st.booleans(),
)
def test_every_row_comes_once_and_after_a_resume_the_rest(
    inputs_at: Any,
    files: list[list[int]],
    sizes: list[int],
    later: list[int],
    largest: int,
    is_cached: bool,
    kept: list[bool],
    ordered: bool,
) -> None:
    input_ = Input(parquet="in", column=("x",))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_files, "LARGEST_BYTES", largest)
        patch.setattr(row_reader, "KEPT_BYTES", 1 << 28 if is_cached else 1)
        patch.setattr(row_reader, "_BATCH_ROWS", 2)
        for number, groups in enumerate(files):
            write(Path(folder, "in", f"{number}.parquet"), groups)
        inputs = inputs_at(folder)
        items = inputs.items(input_, sizes, ordered=ordered)
        expected = {
            (f"in/{number}.parquet", row) for number, groups in enumerate(files) for row in range(sum(groups))
        }
        keys = inputs.keys(input_, items)
        assert len(keys) == len(set(keys))
        assert set(keys) == expected
        assert keys == sorted(keys) or not ordered
        assert inputs.read(input_, items) == [{"x": row} for _, row in keys]
        known = list(compress(items, cycle(kept)))
        rest = inputs.items(input_, later, known, ordered=ordered)
        assert sorted(inputs.keys(input_, [*known, *rest])) == sorted(expected)
        assert [each["x"] for each in inputs.read(input_, rest)] == [
            row for _, row in inputs.keys(input_, rest)
        ]


def test_an_item_lies_within_a_row_group_or_has_whole_ones(inputs: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [4, 4, 10, 1, 1, 1])
    items = inputs.items(Input(parquet="a.parquet"), [9])
    assert [(each["groups"], each["start"], each["rows"], each["skip"]) for each in items] == [
        ([0, 1], 0, 8, 0),
        ([2], 8, 9, 0),
        ([2], 17, 1, 9),
        ([3, 4, 5], 18, 3, 0),
    ]


def test_a_row_has_the_columns_that_were_asked_for(inputs: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [2])
    whole = Input(parquet="a.parquet")
    items = inputs.items(whole)
    assert inputs.read(whole, items)[1] == {"id": "a.parquet:1", "x": 1, "y": 1.0}
    keyed = Input(parquet="a.parquet", key=("id", "x"))
    assert inputs.read(keyed, items) == [{"y": 0.0}, {"y": 1.0}]
    assert inputs.keys(keyed, items) == [("a.parquet:0", 0), ("a.parquet:1", 1)]
    both = Input(parquet="a.parquet", key=("id",), column=("y", "id"))
    assert inputs.read(both, items)[0] == {"y": 0.0, "id": "a.parquet:0"}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**64 - 1, 1], pa.uint64()), pa.uint64()),
        (pa.array([1, 100]).cast(pa.decimal128(22, 2)), pa.decimal128(22, 2)),
        (pa.array([1, 1_000_000_001], pa.timestamp("ns", "UTC")), pa.timestamp("ns", "UTC")),
        (
            pa.array([{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
        (pa.array(["x", "y"]).dictionary_encode(), pa.string()),
        (pa.array(["x", None], pa.large_string()), pa.string()),
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1, 2], pa.timestamp("s")), pa.timestamp("us")),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_a_key_keeps_its_value_and_one_type_for_all_items(
    inputs: Any, tmp_path: Path, column: pa.Array, kind: pa.DataType
) -> None:
    pq.write_table(pa.table({"id": column, "x": [1, 2]}), tmp_path / "a.parquet")
    input_ = Input(parquet="a.parquet", key=("id",), column=("x",))
    found = [opening(input_, str(tmp_path))(item).keys([0])["id"] for item in inputs.items(input_, [1])]
    assert [each.type for each in found] == [kind, kind]
    assert pa.concat_arrays(found).equals(pa.concat_arrays([column]).cast(kind))


def test_rows_here_and_there_keep_their_keys(inputs: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [3, 2, 4])
    input_ = Input(parquet="a.parquet", key=("x",))
    (item,) = inputs.items(input_)
    opened = opening(input_, str(tmp_path))(item)
    for positions in ([], [0], [8], [0, 1, 2, 3, 4], [1, 3, 4, 6, 8]):
        assert opened.keys(positions)["x"].to_pylist() == positions
    assert opened.where(4) == "row 4 of a.parquet"


def test_a_column_that_is_not_there_is_said_with_the_nearest(
    inputs: Any, tmp_path: Path, failure: Any
) -> None:
    table = pa.table({"image": [b""], "label": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    error = failure(inputs.listing(Input(parquet="a.parquet", column=("imgae",), key=("labels",))))
    assert isinstance(error, SpecError)
    assert [(each.message, each.hint) for each in error.problems] == [
        ("a.parquet has no column 'imgae'.", "Did you mean 'image'?"),
        ("a.parquet has no column 'labels'.", "Did you mean 'label'?"),
    ]


def test_cells_are_plain_values(inputs: Any, tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 6)
    nanoseconds = pa.array([1704164645000006007], pa.timestamp("ns"))
    columns = {"bytes": [b"\xff"], "list": [[1, 2]], "none": [None], "when": [moment], "fine": nanoseconds}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    input_ = Input(parquet="a.parquet")
    (row,) = inputs.read(input_, inputs.items(input_))
    expected = {"bytes": b"\xff", "list": [1, 2], "none": None, "when": moment, "fine": moment}
    assert row == expected


@pytest.mark.parametrize("content", [b"", b"no table at all", b"PAR1" + b"\0" * 40 + b"PAR1"])
def test_a_file_that_is_no_table_is_one_error(inputs: Any, tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "in/good.parquet", [3])
    (tmp_path / "in/bad.parquet").write_bytes(content)
    (tmp_path / "in/_SUCCESS").touch()
    input_ = Input(parquet="in")
    items = inputs.items(input_, ordered=True)
    assert inputs.keys(input_, items)[0] == ("in/bad.parquet", None)
    error, *rows = inputs.read(input_, items)
    assert isinstance(error, Unreadable)
    assert str(error).startswith("cannot be read as Parquet: ")
    assert len(rows) == 3
    assert inputs.items(input_, known=items) == []
    write(tmp_path / "in/bad.parquet", [2])
    mended = inputs.items(input_, known=items)
    assert inputs.keys(input_, mended) == [("in/bad.parquet", 0), ("in/bad.parquet", 1)]


def test_a_broken_page_is_an_error_of_the_rows_of_its_group(inputs: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [100, 100, 100], compression="zstd", use_dictionary=False, write_page_checksum=True)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(1)
    data = bytearray(path.read_bytes())
    end = chunk.data_page_offset + chunk.total_compressed_size
    data[end - 40 : end] = b"\x55" * 40
    path.write_bytes(data)
    input_ = Input(parquet="a.parquet", column=("x",))
    for sizes in ([300], [30]):
        rows = inputs.read(input_, inputs.items(input_, sizes))
        assert rows[:100] == [{"x": number} for number in range(100)]
        assert rows[200:] == [{"x": number} for number in range(200, 300)]
        assert {type(each) for each in rows[100:200]} == {Unreadable}
        assert {"row group cannot be read" in str(each) for each in rows[100:200]} == {True}
    keyed = Input(parquet="a.parquet", key=("x",))
    assert inputs.keys(keyed, inputs.items(keyed))[99:101] == [(99,), (None,)]


def test_a_file_that_was_changed_or_went_is_an_error_of_its_rows(inputs: Any, tmp_path: Path) -> None:
    write(tmp_path / "in/a.parquet", [3, 3])
    write(tmp_path / "in/b.parquet", [3])
    input_ = Input(parquet="in", column=("x",))
    items = inputs.items(input_, ordered=True)
    write(tmp_path / "in/a.parquet", [2, 4])
    (tmp_path / "in/b.parquet").unlink()
    write(tmp_path / "in/c.parquet", [5])
    one, *_, last = inputs.read(
        input_, [{**items[0], "groups": [1], "skip": 0, "start": 3, "rows": 3}, items[1]]
    )
    assert (type(one), str(one)) == (Unreadable, "the file was changed since it was listed")
    assert (type(last), str(last)) == (Unreadable, "vanished since it was listed")
    found = inputs.listing(input_, items)
    new = []
    while not found.finished():
        new += [each for each in [found.take(10)] if each]
    assert found.changes() == Changes(new=5, changed=6, gone=3)
    assert [each["file"] for each in new] == ["c.parquet"]


def test_a_file_that_is_all_known_is_not_opened_again(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    write(tmp_path / "a.parquet", [3, 3])
    input_ = Input(parquet="a.parquet")
    items = inputs.items(input_, [2])
    opened = []
    footer = parquet_files._footer
    monkeypatch.setattr(parquet_files, "_footer", lambda *given: opened.append(1) or footer(*given))
    found = inputs.listing(input_, items)
    until(found.complete)
    assert (found.changes(), opened) == (Changes(), [])


def test_a_row_group_that_many_items_are_in_is_read_once(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.parquet", [100])
    input_ = Input(parquet="a.parquet", column=("x",))
    items = inputs.items(input_, [10])
    opened = []
    file = row_reader._file
    monkeypatch.setattr(row_reader, "_file", lambda *given: opened.append(1) or file(*given))
    open_item = opening(input_, str(tmp_path))
    rows = [open_item(params).read(0)["x"] for params in items]
    assert rows == list(range(0, 100, 10))
    assert len(opened) == 1


def test_a_storage_that_cannot_be_reached_is_not_the_fault_of_a_row(inputs: Any, tmp_path: Path) -> None:
    """Also in the middle of a file, where the error has to come through pyarrow."""
    write(tmp_path / "a.parquet", [50_000], use_dictionary=False, compression="none")
    input_ = Input(parquet="a.parquet", column=("x",))
    (params,) = inputs.items(input_, [50_000])
    opened = opening(input_, str(tmp_path))(params)
    place = opened._place  # type: ignore[attr-defined]

    class Fails:
        def __init__(self) -> None:
            self.file = (tmp_path / "a.parquet").open("rb")
            self.closed = False

        def __enter__(self) -> Fails:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def read(self, size: int = -1) -> bytes:
            if self.file.tell() < (tmp_path / "a.parquet").stat().st_size - 100_000:  # Not in the footer.
                raise Unreachable("no answer")
            return self.file.read(size)

        def seek(self, *where: int) -> int:
            return self.file.seek(*where)

        def tell(self) -> int:
            return self.file.tell()

        def close(self) -> None:
            self.closed = True
            self.file.close()

    class Storage:
        url = place.storage.url

        def open(self, _key: str) -> Fails:
            return Fails()

    opened._place = place._replace(storage=Storage())  # type: ignore[attr-defined]
    with pytest.raises(Unreachable):
        opened.read(0)
    opened._place = place  # type: ignore[attr-defined]
    assert opened.read(7) == {"x": 7}


@pytest.mark.s3
def test_tables_in_a_bucket_are_listed_by_their_footers_and_read(
    inputs: Any, bucket: Bucket, tmp_path: Path
) -> None:
    write(tmp_path / "a.parquet", [500, 500])
    open_storage(bucket.url).write("data/a b.parquet", tmp_path / "a.parquet")
    input_ = Input(parquet=f"{bucket.url}/data/", column=("x",))
    items = inputs.items(input_, [300])
    assert [row["x"] for row in inputs.read(input_, items)] == list(range(1000))
    assert inputs.keys(input_, items[:1])[1] == (f"{bucket.url}/data/a b.parquet", 1)


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us"), pa.date64()], ids=str)
def test_a_time_that_python_does_not_have_is_an_error_of_its_row(
    inputs: Any, tmp_path: Path, kind: pa.DataType
) -> None:
    times = pa.array([0, 2**62 // 86_400_000 * 86_400_000, 86_400_000], pa.int64()).cast(kind)
    pq.write_table(pa.table({"id": times, "x": times}), tmp_path / "a.parquet")
    input_ = Input(parquet="a.parquet", column=("x",), key=("id",))
    items = inputs.items(input_)
    before, odd, after = inputs.read(input_, items)
    assert isinstance(odd, Unreadable)
    assert before["x"] < after["x"]
    assert [key is None for (key,) in inputs.keys(input_, items)] == [False, True, False]


@pytest.mark.parametrize("kept_bytes", [row_reader.KEPT_BYTES, 0], ids=["kept", "streamed"])
def test_columns_that_stand_in_the_names_of_folders_can_be_asked_for(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(row_reader, "KEPT_BYTES", kept_bytes)
    for year in ("2023", "2024"):
        folder = tmp_path / "t" / f"year={year}" / "city=A%20B"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1, 2]}), folder / "a.parquet")
    for column in (("x", "year"), ("year",)):
        input_ = Input(parquet="t", column=column, key=("city", "year"))
        items = inputs.items(input_, [1], ordered=True)
        years = [{"year": "2023"}, {"year": "2023"}, {"year": "2024"}, {"year": "2024"}]
        read = [
            {name: value for name, value in row.items() if name != "x"} for row in inputs.read(input_, items)
        ]
        assert read == years
        assert inputs.keys(input_, items)[0] == ("A B", "2023")
    input_ = Input(parquet="t/year=2024/city=A%20B/a.parquet", key=("year",))
    items = inputs.items(input_)
    assert inputs.read(input_, items) == [{"x": 1}, {"x": 2}]
    assert inputs.keys(input_, items) == [("2024",), ("2024",)]
