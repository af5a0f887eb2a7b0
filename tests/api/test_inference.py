"""An inference from Python: its rows are those of its output."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.api import workloads
from shoal.api.machines import machines
from shoal.api.runs import new_session
from shoal.api.views.lookup import runs
from shoal.cluster.this_machine import Here
from shoal.errors import NotFound, SpecError
from shoal.work.inputs import lister

MODEL = """\
class Length:
    def __call__(self, batch):
        return {"length": [len(text) for text in batch]}

class Ones:
    def __call__(self, batch):
        return {"length": [1 for _ in batch]}

class Broken:
    def __call__(self, batch):
        raise RuntimeError("no")

class Same:
    def __call__(self, batch):
        return {"same": batch}

class Short:
    def __call__(self, batch):
        if any(len(text) > 4 for text in batch):
            raise SystemExit("too long")
        return {"length": [len(text) for text in batch]}
"""
TAKEN = """\
import json
from pathlib import Path

class Length:
    def __call__(self, batch):
        Path("out/.shoal-output/run.json").write_text(json.dumps({"run": "other-1", "home": "."}))
        return {"length": [len(text) for text in batch]}
"""
WORKLOAD = """\
kind: infer
name: lengths
input: {text: words.txt}
model: {function: "length:Length"}
output: out/
tune: {item: 2}
"""
WORDS = ("a", "bb", "ccc", "dddd", "eeeee")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "length.py").write_text(MODEL)
    (tmp_path / "lengths.yaml").write_text(WORKLOAD)
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))


def test_an_inference_gives_its_output_as_a_table() -> None:
    run = shoal.run("lengths.yaml")
    assert run.state == "succeeded"
    table = run.table()
    assert table.column_names == ["path", "row", "length"]
    assert table.column("length").to_pylist() == [1, 2, 3, 4, 5]
    assert run.rows()[1] == {"path": "words.txt", "row": 1, "length": 2}
    assert run.best is None


def test_an_inference_runs_inline_with_the_same_rows() -> None:
    run = shoal.run("lengths.yaml", inline=True)
    assert run.state == "succeeded"
    assert run.table().column("length").to_pylist() == [1, 2, 3, 4, 5]
    assert "length" not in sys.modules


def test_rows_of_an_output_come_as_items_finish_each_once() -> None:
    run = shoal.start("lengths.yaml")
    assert sorted(row["length"] for row in run.results()) == [1, 2, 3, 4, 5]
    summary = run.wait()
    assert summary.infer is not None
    assert (summary.infer["rows"], summary.results) == (5, str(Path("out").resolve()))


def test_an_inference_without_rows_is_an_empty_table() -> None:
    run = shoal.run("lengths.yaml", sets=["model.function=length:Broken"])
    assert run.state == "failed"
    assert run.table().num_rows == 0


def test_an_output_that_is_taken_before_the_end_is_no_run_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "length.py").write_text(TAKEN)
    with pytest.raises(SpecError, match="is the output of run other-1 now"):
        shoal.run("lengths.yaml")
    (run,) = runs()
    assert run.state == "failed"


def test_a_bad_row_with_a_key_of_another_type_is_an_error_like_others(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "t": "a"}\n{"id": "abc"}\n{"id": 2, "t": "b"}\n')
    sets = ["input={jsonl: rows.jsonl, key: id, column: t}", "limits.errors=1", "model.function=length:Ones"]
    run = shoal.run("lengths.yaml", sets=sets)
    assert run.state == "succeeded"
    assert run.table().column("id").to_pylist() == [1, 2]
    (error,) = pq.read_table(tmp_path / "out" / "errors.parquet").to_pylist()
    assert error["id"] is None
    assert error["reason"].endswith('; its key id is "abc"')


def test_an_error_whose_key_cannot_be_read_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "t": "a"}\n{"id": 2\n{"id": 3, "t": "b"}\nno\n')
    sets = ["input={jsonl: rows.jsonl, key: id, column: t}", "limits.errors=1", "model.function=length:Ones"]
    run = shoal.run("lengths.yaml", sets=sets)
    errors = pq.read_table(tmp_path / "out" / "errors.parquet").to_pylist()
    places = [error["reason"].partition("; the input is ")[2] for error in errors]
    assert places == ["row 1 of rows.jsonl", "row 3 of rows.jsonl"]
    assert all("row" not in reason for reason in run.wait().infer["reasons"])


def test_numbers_of_a_table_reach_a_class_as_they_are(tmp_path: Path) -> None:
    times = [1_700_000_000.25, 1_700_000_000.5]
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.timestamp("ns")), "t": times}), tmp_path / "t.parquet")
    sets = ["input={parquet: t.parquet, key: id, column: t}", "model.function=length:Same"]
    run = shoal.run("lengths.yaml", sets=sets)
    assert run.table().column("same").to_pylist() == times
    assert [row["id"].microsecond for row in run.rows()] == [0, 0], "Python has no nanoseconds"
    assert run.table().column("id").cast("int64").to_pylist() == [1, 2]


def test_another_model_at_a_resume_is_said(tmp_path: Path) -> None:
    first = shoal.run("lengths.yaml", sets=["model.function=length:Short"])
    assert first.state == "failed"
    for text, is_said in ((MODEL, False), (MODEL.replace("> 4", "> 40"), True)):
        (tmp_path / "length.py").write_text(text)
        again = shoal.resume(first.id, failed=True, display=False)
        notes = again.wait().notes
        assert is_said == any("changed since the run began; what was done before" in note for note in notes)
    assert (again.state, again.table().num_rows) == ("succeeded", 5)


def test_a_mistake_in_the_input_does_not_cost_what_an_earlier_run_wrote(tmp_path: Path) -> None:
    first = shoal.run("lengths.yaml")
    Path("gone.txt").write_text("a\n")
    prepared = workloads.from_file("lengths.yaml", ["input.text=gone.txt"], None)
    Path("gone.txt").unlink()
    with pytest.raises(NotFound):
        new_session(prepared, machines(None), Here()).drive()
    assert first.table().num_rows == 5
    assert sorted(path.name for path in (tmp_path / "out" / ".shoal-output").glob("ended-*"))
    again = shoal.run("lengths.yaml", sets=["tune.item=5"])
    assert again.table().num_rows == 5
    assert any(f"held 3 parts of run {first.id}" in note for note in again.wait().notes)
    with pytest.raises(NotFound, match="is gone"):
        first.table()


def test_a_run_that_is_stopped_before_it_takes_an_input_leaves_the_output_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = shoal.run("lengths.yaml")
    monkeypatch.setattr(lister, "MOST_WAITING", 1)  # So that there is always more to find.
    Path("words").mkdir()
    for number in range(20):
        Path(f"words/{number}.txt").write_text("a\n")
    prepared = workloads.from_file("lengths.yaml", ["input.text=words/*.txt"], None)
    session = new_session(prepared, machines(None), Here())
    session.stop()
    assert session.drive().state == "stopped"
    assert first.table().num_rows == 5
    again = shoal.resume(session.store.run, display=False)
    assert again.table().num_rows == 20
