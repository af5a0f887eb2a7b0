"""An inference from Python: its rows are those of its output."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal

MODEL = """\
class Length:
    def __call__(self, batch):
        return {"length": [len(text) for text in batch]}

class Broken:
    def __call__(self, batch):
        raise RuntimeError("no")
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
