"""One file that cannot be used among others is an error of its own, and does not end the listing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import AccessDenied, FileError, ShoalError, SpecError, Unreachable
from shoal.spec.shared_sections import Input
from shoal.work.inputs.places import own_fault
from shoal.work.protocols import Unreadable

PACKED = b"\x28\xb5\x2f\xfdxxxx"


@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_a_packed_file_after_a_good_one_is_one_error(inputs: Any, tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_text('{"x": 1}\n')
    (tmp_path / "b").write_bytes(PACKED)
    (tmp_path / "c").write_text('{"x": 3}\n')
    input_ = Input(**{kind: "?"})
    items = inputs.items(input_, ordered=True)
    assert inputs.keys(input_, items) == [("a", 0), ("b", None), ("c", 0)]
    _, odd, _ = inputs.read(input_, items)
    assert isinstance(odd, Unreadable)
    assert str(odd) == "b is compressed (Zstandard)."
    assert inputs.items(input_, ordered=True, known=items) == []
    (tmp_path / "b").write_text('{"x": 2}\n{"x": 2}\n')
    mended = inputs.items(input_, ordered=True, known=items)
    assert inputs.keys(input_, mended) == [("b", 0), ("b", 1)]


def test_keys_of_a_packed_file_are_null(inputs: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"id": 7}\n')
    (tmp_path / "b").write_bytes(PACKED)
    input_ = Input(jsonl="?", key=("id",))
    assert inputs.keys(input_, inputs.items(input_, ordered=True)) == [(7,), (None,)]


def test_a_table_without_the_column_after_a_good_one_is_one_error(inputs: Any, tmp_path: Path) -> None:
    for name, column in (("a", "x"), ("b", "y"), ("c", "x")):
        pq.write_table(pa.table({column: [1]}), tmp_path / f"{name}.parquet")
    input_ = Input(parquet="*.parquet", column=("x",))
    items = inputs.items(input_, ordered=True)
    assert inputs.keys(input_, items) == [("a.parquet", 0), ("b.parquet", None), ("c.parquet", 0)]
    assert str(inputs.read(input_, items)[1]) == "b.parquet has no column 'x'."
    assert inputs.items(input_, ordered=True, known=items) == []


def test_until_a_file_was_good_the_request_is_what_is_wrong(
    inputs: Any, tmp_path: Path, failure: Any
) -> None:
    (tmp_path / "a").write_bytes(PACKED)
    (tmp_path / "b").write_text("line\n")
    assert isinstance(failure(inputs.listing(Input(text="?"), ordered=True)), SpecError)


@pytest.mark.parametrize(
    ("error", "is_own"),
    [
        (AccessDenied("a may not be used"), True),
        (AccessDenied("no credentials", is_general=True), False),
        (Unreachable("no answer"), False),
        (FileError("no disk"), False),
        (SpecError("a has no column"), True),
    ],
    ids=str,
)
def test_only_what_is_wrong_with_a_file_alone_is_its_own_fault(error: ShoalError, is_own: bool) -> None:
    if is_own:
        assert own_fault(error, is_proven=True) == str(error)
    else:
        with pytest.raises(type(error)):
            own_fault(error, is_proven=True)
    with pytest.raises(type(error)):
        own_fault(error, is_proven=False)
