"""A part is written once and whole, says what it is, and can be read together with all others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import pytest

from shoal.engine.workers.runner import Failed
from shoal.errors import AccessDenied
from shoal.spec.shared_sections import Output
from shoal.work.outputs import PartWriter, claim, document_of, finish, rows
from shoal.work.protocols import Facts

FACTS = Facts(0, 0, bytes=7, seconds={"reading": 0.5})
COLUMNS = {"label": ["on", "off"], "prob": np.array([0.25, 0.75], np.float32)}
BAD = [({"path": "c"}, "truncated")]


def write(
    writer: PartWriter, seq: int = 0, attempt: int = 1, columns: Any = COLUMNS, errors: Any = (), n: int = 2
) -> Facts:
    keys = {"path": [f"{seq}/{number}" for number in range(n)]}
    return writer.write(seq, attempt, f"content {seq}", keys, columns, errors, FACTS)


def shown(folder: Path) -> set[str]:
    """What a person sees in the folder."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_part_is_found_by_whoever_comes_later(output: Output) -> None:
    writer = PartWriter(output, ".", "a-1")
    assert writer.find(12, "content 12") is None
    facts = write(writer, 12, errors=BAD)
    assert facts == Facts(2, 1, 7, {"reading": 0.5}, attempt=1)
    assert PartWriter(output, ".", "a-1").find(12, "content 12") == facts
    assert list(rows(output, ".")) == [
        {"path": "12/0", "label": "on", "prob": 0.25},
        {"path": "12/1", "label": "off", "prob": 0.75},
    ]


def test_a_second_attempt_takes_over_what_the_first_wrote(output: Output) -> None:
    first = write(PartWriter(output, ".", "a-1"), attempt=1, errors=BAD)
    other = {"label": ["x", "y"], "prob": np.zeros(2, np.float32)}
    assert write(PartWriter(output, ".", "a-1"), attempt=2, columns=other) == first
    assert [row["label"] for row in rows(output, ".")] == ["on", "off"]


def test_a_part_of_another_run_or_of_other_inputs_fails_the_item(local_output: Output) -> None:
    write(PartWriter(local_output, ".", "a-1"))
    with pytest.raises(Failed, match=r"part-000000.parquet is there already, and is of run a-1"):
        PartWriter(local_output, ".", "b-2").find(0, "content 0")
    with pytest.raises(Failed, match="of run a-1"):
        write(PartWriter(local_output, ".", "b-2"))
    with pytest.raises(Failed, match="of other inputs"):
        PartWriter(local_output, ".", "a-1").find(0, "other content")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet"])
def test_a_file_that_is_no_part_fails_the_item(local_output: Output, content: bytes) -> None:
    os.makedirs(local_output.path)
    Path(local_output.path, "part-000000.parquet").write_bytes(content)
    with pytest.raises(Failed, match="is no part that Shoal wrote"):
        PartWriter(local_output, ".", "a-1").find(0, "content 0")


def test_parquet_that_shoal_did_not_write_is_no_part(local_output: Output) -> None:
    os.makedirs(local_output.path)
    pq.write_table(pyarrow.table({"path": ["a"]}), f"{local_output.path}/part-000000.parquet")
    with pytest.raises(Failed, match="is no part that Shoal wrote"):
        PartWriter(local_output, ".", "a-1").find(0, "content 0")


def test_numbers_of_items_have_six_digits_or_more(local_output: Output) -> None:
    writer = PartWriter(local_output, ".", "a-1")
    for seq in (7, 1_234_567):
        write(writer, seq)
    assert shown(Path(local_output.path)) == {"part-000007.parquet", "part-1234567.parquet"}
    assert [row["path"] for row in rows(local_output, ".")] == ["7/0", "7/1", "1234567/0", "1234567/1"]


def test_workers_agree_on_types(local_output: Output) -> None:
    write(PartWriter(local_output, ".", "a-1"), 0)
    as_lists = {"label": [None, "off"], "prob": [1, 0.5]}
    write(PartWriter(local_output, ".", "a-1"), 1, columns=as_lists)
    table = pq.read_table(local_output.path)
    assert [str(field.type) for field in table.schema] == ["string", "string", "float"]
    assert table.column("label").to_pylist() == ["on", "off", None, "off"]
    assert table.column("prob").to_pylist() == [0.25, 0.75, 1, 0.5]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (
            {"label": ["on"], "prob": [0.5]},
            "The model gave column 'label' for 1, 'prob' for 1 of 2 inputs: give the same columns",
        ),
        ({**COLUMNS, "path": [1, 2]}, "The model gives a column 'path'"),
    ],
)
def test_what_could_not_be_read_together_fails_the_item(local_output: Output, columns: Any, why: str) -> None:
    write(PartWriter(local_output, ".", "a-1"), 0)
    with pytest.raises(Failed, match=why):
        write(PartWriter(local_output, ".", "a-1"), 1, columns=columns)
    assert shown(Path(local_output.path)) == {"part-000000.parquet"}


TYPE = "the model gave a value of another type than in other rows, in column "


def ended(output: Output, parts: int) -> Any:
    """Everything as others read it, once the run is over."""
    writer = PartWriter(output, ".", "a-1")
    facts = [writer.find(seq, f"content {seq}") for seq in range(parts)]
    finish(output, ".", "a-1", [(seq, document_of(each)) for seq, each in enumerate(facts) if each])
    return pq.read_table(output.path)


def errors_of(table: Any) -> list[str]:
    return [each for each in table.column("reason").to_pylist() if each]


def test_columns_may_be_missing_and_others_may_come_later(local_output: Output) -> None:
    claim(local_output, ".", "a-1", "home", is_alive=lambda *_: False)
    for seq, columns in enumerate([COLUMNS, {"label": ["x", None]}, {**COLUMNS, "more": [None, 1]}, COLUMNS]):
        assert write(PartWriter(local_output, ".", "a-1"), seq, columns=columns).rows == 2
    table = ended(local_output, 4)
    assert table.column_names == ["path", "label", "prob", "more"]
    assert table.column("label").to_pylist() == ["on", "off", "x", None, "on", "off", "on", "off"]
    assert table.column("prob").to_pylist() == [0.25, 0.75, None, None, 0.25, 0.75, 0.25, 0.75]
    assert table.column("more").to_pylist() == [None] * 5 + [1] + [None] * 2


@pytest.mark.parametrize(
    ("first", "later", "odd"),
    [
        ([1, "N/A", 2.5], [3, 4.5, "N/A"], ['"N/A"', '"N/A"']),
        ([True, False, 1], [True, 0, None], ["1", "0"]),
        ([[1], "none", [2.5]], [[], None, [[1]]], ['"none"', "[[1]]"]),
        (
            [{"a": 1}, {"a": 1, "b": [2]}, {"a": "x"}],
            [{"c": None}, {"b": 3}, None],
            ['{"a": "x"}', '{"b": 3}'],
        ),
        ([1, 2**70, object], [object, "x", "y"], [str(2**70), '"<class', '"<class', '"x"', '"y"']),
        (np.array([1.5, 2.5, 3.5]), ["1.5", "x", None], ['"1.5"', '"x"']),
    ],
    ids=["number", "truth", "list", "dict", "no place in a table", "array"],
)
def test_a_value_that_does_not_go_with_the_others_costs_its_own_row(
    local_output: Output, first: Any, later: Any, odd: list[str]
) -> None:
    claim(local_output, ".", "a-1", "home", is_alive=lambda *_: False)
    for seq, values in enumerate((first, later)):
        write(PartWriter(local_output, ".", "a-1"), seq, columns={"found": values}, n=3)
    table = ended(local_output, 2)
    told = errors_of(table)
    assert table.num_rows == 6
    for reason, value in zip(told, odd, strict=True):
        assert reason.startswith(f"{TYPE}'found'; it gave {value}")


def test_where_nothing_goes_together_the_item_fails(local_output: Output) -> None:
    with pytest.raises(Failed, match="The column 'found' cannot be written"):
        write(PartWriter(local_output, ".", "a-1"), columns={"found": np.zeros(2, complex)})


def test_a_row_with_a_column_that_is_called_as_a_key_is_an_error(local_output: Output) -> None:
    columns = {"label": ["a", "b", "c"], "path": [None, "mine", None]}
    assert write(PartWriter(local_output, ".", "a-1"), columns=columns, n=3)[:2] == (2, 1)
    assert list(rows(local_output, ".")) == [{"path": "0/0", "label": "a"}, {"path": "0/2", "label": "c"}]


def test_columns_that_never_end_fail_the_item_with_what_to_do(local_output: Output) -> None:
    write(PartWriter(local_output, ".", "a-1"))
    many = {f"word{number}": [number, None] for number in range(1100)}
    with pytest.raises(Failed, match=r"more and more columns, 1,103 by now.*output: \{json: "):
        write(PartWriter(local_output, ".", "a-1"), 1, columns=many)


def test_columns_are_kept_as_json_where_that_is_asked_for(local_output: Output) -> None:
    output = Output(path=local_output.path, json=("answer", "never"))
    claim(output, ".", "a-1", "home", is_alive=lambda *_: False)
    loop: list[Any] = []
    loop.append(loop)
    answers = [{"ü": [np.float32(0.5), float("nan")]}, "text", None, np.arange(2), {1, 2}, loop]
    facts = write(PartWriter(output, ".", "a-1"), columns={"answer": answers}, n=6)
    assert facts[:2] == (4, 2)
    assert [row["answer"] for row in rows(output, ".")] == ['{"ü": [0.5, null]}', '"text"', None, "[0, 1]"]
    reasons = errors_of(ended(output, 1))
    assert all(
        each.startswith("what the model gave in column 'answer' cannot be written as JSON")
        for each in reasons
    )
    assert len(reasons) == 2


def test_what_was_none_inside_of_a_value_may_be_something_in_the_next_part(local_output: Output) -> None:
    one, other = {"a": None, "b": [], "c": 1}, {"a": "x", "b": [2], "c": None}
    for seq, value in enumerate((one, other)):
        write(PartWriter(local_output, ".", "a-1"), seq, columns={"found": [value, value]})
    schemas = [pq.read_schema(f"{local_output.path}/part-{seq:06d}.parquet") for seq in range(2)]
    assert str(schemas[1].field("found").type) == "struct<a: string, b: list<element: int64>, c: int64>"


def test_fractions_may_come_after_whole_numbers(local_output: Output) -> None:
    claim(local_output, ".", "a-1", "home", is_alive=lambda *_: False)
    columns = [{"score": [0, 1], "all": [[0, 1], [1, 0]]}, {"score": [0.5, 1.0], "all": [[0.5, 0.5], [1, 0]]}]
    for seq, given in enumerate((*columns, columns[0])):
        write(PartWriter(local_output, ".", "a-1"), seq, columns=given)
    done = [(seq, document_of(Facts(2, 0, attempt=1))) for seq in range(3)]
    assert finish(local_output, ".", "a-1", done).rows == 6
    table = pq.read_table(local_output.path)
    assert [str(field.type) for field in table.schema] == ["string", "double", "list<element: double>"]
    assert table.column("score").to_pylist() == [0, 1, 0.5, 1, 0, 1]


def test_a_key_of_another_type_costs_only_its_own_row(local_output: Output) -> None:
    writer = PartWriter(local_output, ".", "a-1")

    def write_keys(seq: int, keys: Any) -> Facts:
        columns = {"prob": np.arange(len(keys), dtype=np.float32), "label": [str(key) for key in keys]}
        return writer.write(seq, 1, f"content {seq}", {"id": keys}, columns, [], FACTS)

    assert write_keys(0, ["seven", 8, 9, 10, 1 << 70])[:2] == (3, 2)
    assert write_keys(1, [1, 2, "three"])[:2] == (2, 1)
    arrow_keys = pyarrow.array([5, 6, 1 << 63], pyarrow.uint64())
    assert write_keys(2, arrow_keys)[:2] == (2, 1)
    assert [(row["id"], row["label"]) for row in rows(local_output, ".")] == [
        (8, "8"),
        (9, "9"),
        (10, "10"),
        (1, "1"),
        (2, "2"),
        (5, "5"),
        (6, "6"),
    ]
    with pytest.raises(Failed, match="values of one type"):
        write_keys(3, ["all", "of", "them"])


def test_a_storage_that_refuses_says_so(local_output: Output, tmp_path: Path) -> None:
    os.symlink(tmp_path, local_output.path)
    (tmp_path / ".shoal-output").symlink_to("/")
    with pytest.raises(AccessDenied):
        write(PartWriter(local_output, ".", "a-1"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this system does not let us mount a disk: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
def test_a_full_disk_fails_the_item_in_a_sentence_and_leaves_nothing(small_disk: Path) -> None:
    output = Output(path=str(small_disk / "out"))
    writer = PartWriter(output, ".", "a-1")
    write(writer, 0)
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    with pytest.raises(
        Failed, match=r"The disk of the output is full: no more can be written to .*Make room"
    ):
        write(writer, 1, errors=BAD)
    assert shown(small_disk / "out") == {"part-000000.parquet"}
    assert [path.name for path in small_disk.rglob("*.part")] == []
    filler.unlink()
    assert write(writer, 1, attempt=2).rows == 2
    assert pq.read_table(output.path).num_rows == 4
