"""The end of an output: errors in one file, everything readable together, nothing of unfinished attempts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shoal.errors import SpecError
from shoal.files import Storage
from shoal.spec.shared_sections import Output
from shoal.work.outputs import PartWriter, Totals, claim, document_of, finish, replace, rows, tidy
from shoal.work.outputs.layout import HIDDEN, OWNER, errors_key, opened
from shoal.work.protocols import Facts

RUN = "a-1"
Done = list[tuple[int, dict[str, Any]]]


@pytest.fixture
def writer(local_output: Output) -> PartWriter:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    return PartWriter(local_output, ".", RUN)


def write(
    writer: PartWriter, seq: int, good: int = 2, bad: int = 0, attempt: int = 1, **columns: Any
) -> tuple[int, dict[str, Any]]:
    keys = {"path": [f"{seq}/{number}" for number in range(good)]}
    columns = columns or {"label": ["on"] * good}
    errors = [({"path": f"{seq}/bad{number}"}, "truncated") for number in range(bad)]
    facts = Facts(0, 0, 10, {"reading": 0.5, "predicting": 1.0})
    return seq, document_of(writer.write(seq, attempt, "c", keys, columns if good else {}, errors, facts))


def table(output: Output, name: str = "errors.parquet") -> list[dict[str, Any]]:
    return pq.read_table(f"{output.path}/{name}").to_pylist()


def everything(storage: Storage) -> dict[str, bytes]:
    return {entry.key: storage.read(entry.key) for entry in storage.list(hidden=True)}


def test_totals_add_up(output: Output) -> None:
    claim(output, ".", RUN, "home", is_alive=lambda *_: False)
    writer = PartWriter(output, ".", RUN)
    done = [write(writer, 0), write(writer, 1, bad=1), write(writer, 2, good=0, bad=2)]
    totals = finish(output, ".", RUN, done)
    seconds = {"reading": 1.5, "predicting": 3.0}
    assert totals == Totals(4, 3, 3, 30, seconds, (), {"truncated": 3})
    assert [row["path"] for row in rows(output, ".")] == ["0/0", "0/1", "1/0", "1/1"]
    assert [row["path"] for row in rows(output, ".", limit=3)] == ["0/0", "0/1", "1/0"]
    tidy(output, ".", RUN)
    assert finish(output, ".", RUN, done) == totals


def test_without_errors_there_is_no_file_of_them(local_output: Output, writer: PartWriter) -> None:
    finish(local_output, ".", RUN, [write(writer, 0)])
    assert not os.path.exists(f"{local_output.path}/errors.parquet")


def test_errors_of_all_items_are_in_one_file_in_the_order_of_items(
    local_output: Output, writer: PartWriter
) -> None:
    done = [write(writer, seq, bad=seq % 3) for seq in (5, 2, 0, 4, 3, 1)]
    finish(local_output, ".", RUN, done)
    paths = ["1/bad0", "2/bad0", "2/bad1", "4/bad0", "5/bad0", "5/bad1"]
    assert table(local_output) == [{"path": path, "label": None, "reason": "truncated"} for path in paths]


def test_errors_and_parts_can_be_read_together(local_output: Output, writer: PartWriter) -> None:
    finish(local_output, ".", RUN, [write(writer, 0, bad=1), write(writer, 1)])
    found = pq.read_table(local_output.path).to_pylist()
    assert sorted((row["path"], row["label"], row["reason"]) for row in found if row["label"]) == [
        (path, "on", None) for path in ("0/0", "0/1", "1/0", "1/1")
    ]
    assert [row["path"] for row in found if row["reason"]] == ["0/bad0"]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("empty", [{0}, {1}, {2}, {0, 1}], ids=str)
def test_parts_without_rows_do_not_stand_in_the_way_of_the_others(
    local_output: Output, order: tuple[int, ...], empty: set[int]
) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = []
    for seq in order:
        writer = PartWriter(local_output, ".", RUN)
        done.append(write(writer, seq, good=0 if seq in empty else 2, bad=1 if seq in empty else 0))
    totals = finish(local_output, ".", RUN, done)
    assert (totals.rows, totals.errors, totals.parts) == (6 - 2 * len(empty), len(empty), 3)
    os.unlink(f"{local_output.path}/errors.parquet")
    found = pq.read_table(local_output.path)
    assert found.column("label").to_pylist() == ["on"] * totals.rows
    for seq in order:
        assert pq.read_schema(f"{local_output.path}/part-{seq:06d}.parquet").names == ["path", "label"]
        assert PartWriter(local_output, ".", RUN).find(seq, "c") is not None


def test_columns_that_were_empty_at_first_have_the_type_that_they_get_later(
    local_output: Output, writer: PartWriter
) -> None:
    done = [
        write(writer, 0, why=[None, None], top=[[], None], never=[None, None]),
        write(writer, 1, why=[None, 5], top=[["a"], []], never=[None, None]),
        write(writer, 2, why=[None, None], top=[None, None], never=[None, None]),
    ]
    finish(local_output, ".", RUN, done)
    found = pq.read_table(local_output.path)
    assert [str(field.type) for field in found.schema][1:3] == ["int64", "list<element: string>"]
    assert found.column("why").to_pylist() == [None, None, None, 5, None, None]
    assert found.column("top").to_pylist() == [[], None, ["a"], [], None, None]
    assert found.column("never").to_pylist() == [None] * 6


def test_where_nothing_was_good_the_errors_are_told_all_the_same(
    local_output: Output, writer: PartWriter
) -> None:
    done = [write(writer, seq, good=0, bad=2) for seq in range(2)]
    for _ in range(2):
        assert finish(local_output, ".", RUN, done).errors == 4
        assert [row["path"] for row in table(local_output)] == ["0/bad0", "0/bad1", "1/bad0", "1/bad1"]
        tidy(local_output, ".", RUN)


def test_a_column_called_reason_keeps_its_name(local_output: Output, writer: PartWriter) -> None:
    errors = [({"reason": 7}, "truncated")]
    facts = writer.write(0, 1, "c", {"reason": [1]}, {"label": ["on"]}, errors, Facts(0, 0))
    finish(local_output, ".", RUN, [(0, document_of(facts))])
    assert table(local_output) == [{"reason": 7, "label": None, "error_reason": "truncated"}]


def test_a_part_that_is_missing_is_told_and_not_counted(local_output: Output, writer: PartWriter) -> None:
    done = [write(writer, seq, bad=1) for seq in range(3)]
    os.unlink(f"{local_output.path}/part-000001.parquet")
    totals = finish(local_output, ".", RUN, done)
    assert (totals.missing, totals.rows, totals.errors, totals.parts) == ((1,), 4, 2, 2)
    assert len(table(local_output)) == 2


def test_only_the_errors_of_the_attempt_that_counts_are_told(
    local_output: Output, writer: PartWriter
) -> None:
    storage = opened(local_output, ".")
    done = [write(writer, 0, bad=1, attempt=2)]
    (counted,) = (entry.key for entry in storage.list(HIDDEN, "errors-*"))
    for key in (errors_key(0, 1, "0" * 64), errors_key(0, 2, "0" * 64), errors_key(5, 1, "0" * 64)):
        storage.write(key, b"of an attempt that died")
    finish(local_output, ".", RUN, done)
    assert [row["path"] for row in table(local_output)] == ["0/bad0"]
    assert [entry.key for entry in storage.list(HIDDEN, "errors-*")] == [counted]


def test_what_unfinished_attempts_left_is_removed(local_output: Output, writer: PartWriter) -> None:
    done = [write(writer, 0)]
    write(writer, 1, bad=1)
    left = [".part-000009.parquet.0123abcd.part", f"{HIDDEN}/.errors-000009-1-x.parquet.0123abcd.part"]
    for key in left:
        Path(local_output.path, key).touch()
    finish(local_output, ".", RUN, done)
    tidy(local_output, ".", RUN)
    keys = sorted(entry.key for entry in opened(local_output, ".").list(hidden=True))
    published = f"{HIDDEN}/published/{RUN}/1.json"
    assert keys == [published, OWNER, f"{HIDDEN}/schema-1.arrow", "part-000000.parquet"]
    assert table(local_output, "part-000000.parquet")[0]["path"] == "0/0"


def test_an_output_that_another_run_took_is_not_touched(local_output: Output, writer: PartWriter) -> None:
    done = [write(writer, 0)]
    claim(local_output, ".", "b-2", "home", is_alive=lambda *_: False)
    replace(local_output, ".", "b-2")
    write(PartWriter(local_output, ".", "b-2"), 1)
    before = everything(opened(local_output, "."))
    with pytest.raises(SpecError, match="run b-2"):
        finish(local_output, ".", RUN, done)
    assert everything(opened(local_output, ".")) == before


def test_a_run_that_is_resumed_after_its_end_keeps_the_errors_that_it_had(
    local_output: Output, writer: PartWriter
) -> None:
    done = [write(writer, seq, bad=seq) for seq in (1, 3)]
    finish(local_output, ".", RUN, done)
    tidy(local_output, ".", RUN)
    done += [write(writer, seq, bad=1) for seq in (0, 2, 4)]
    totals = finish(local_output, ".", RUN, done)
    assert totals.reasons == {"truncated": 7}
    items = [row["path"].partition("/")[0] for row in table(local_output)]
    assert items == ["0", "1", "2", "3", "3", "3", "4"]


def test_errors_that_somebody_removed_are_counted(local_output: Output, writer: PartWriter) -> None:
    done = [write(writer, seq, bad=2) for seq in (0, 1)]
    finish(local_output, ".", RUN, done[:1])
    tidy(local_output, ".", RUN)
    os.unlink(f"{local_output.path}/errors.parquet")
    done = [*done[:1], write(writer, 1, bad=2)]
    assert finish(local_output, ".", RUN, done).reasons == {
        "the record of this error was removed": 2,
        "truncated": 2,
    }
    assert [row["path"] for row in table(local_output)] == [None, None, "1/bad0", "1/bad1"]


def test_finishing_holds_little_in_memory(tmp_path: Path) -> None:
    """300,000 errors with long names, 90 MB as they are: read twice, from items and from the combined file."""
    program = """
import json, resource, sys
from shoal.spec.infer import Output
from shoal.work.protocols import Facts
from shoal.work.outputs import PartWriter, claim, document_of, finish, tidy
output = Output(path=sys.argv[1])
claim(output, ".", "a-1", "home", is_alive=lambda *_: False)
writer = PartWriter(output, ".", "a-1")
def write(seq):
    errors = [({"path": f"{seq}/{number}/" + "x" * 300}, f"truncated {seq} {number}") for number in range(5000)]
    return document_of(writer.write(seq, 1, "c", {"path": ["x"]}, {"label": ["on"]}, errors, Facts(0, 0)))
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
done = [(seq, write(seq)) for seq in range(2)]
finish(output, ".", "a-1", done)
done += [(seq, write(seq)) for seq in range(2, 14)]
finish(output, ".", "a-1", done)
before = most()
done += [(seq, write(seq)) for seq in range(14, 60)]
finish(output, ".", "a-1", done)
tidy(output, ".", "a-1")
totals = finish(output, ".", "a-1", done)
print(json.dumps([totals.errors, most() - before]))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    made = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
    errors, grown_mib = json.loads(made.stdout)
    assert errors == 300_000
    assert grown_mib < 60


def write_ids(writer: PartWriter, seq: int, good: list[Any], bad: list[Any]) -> tuple[int, dict[str, Any]]:
    errors = [({"id": each}, "no text") for each in bad]
    columns = {"label": ["on"] * len(good)} if good else {}
    return seq, document_of(writer.write(seq, 1, "c", {"id": good}, columns, errors, Facts(0, 0)))


def test_an_error_whose_key_is_of_another_type_is_told_in_its_reason(
    local_output: Output, writer: PartWriter
) -> None:
    done = [write_ids(writer, 0, [1, 2], ["abc", None]), write_ids(writer, 1, [3], [4, 1.5])]
    totals = finish(local_output, ".", RUN, done)
    assert totals.reasons == {"no text": 4}
    assert [(row["id"], row["reason"]) for row in table(local_output)] == [
        (None, 'no text; its key id is "abc"'),
        (None, "no text"),
        (4, "no text"),
        (None, "no text; its key id is 1.5"),
    ]
    tidy(local_output, ".", RUN)
    before = table(local_output)
    assert finish(local_output, ".", RUN, done) == totals
    assert table(local_output) == before


def test_errors_of_one_item_may_have_keys_of_several_types(local_output: Output, writer: PartWriter) -> None:
    odd = [None, 7, "abc", 10**30, [1], 8]
    finish(local_output, ".", RUN, [write_ids(writer, 0, [], odd), write_ids(writer, 1, [], ["x", "y"])])
    found = table(local_output)
    assert [row["id"] for row in found] == [None, 7, None, None, None, 8, None, None]
    told = [row["reason"].removeprefix("no text; its key id is ") for row in found if row["id"] is None]
    assert told == ["no text", '"abc"', f"{10**30}", "[1]", '"x"', '"y"']
