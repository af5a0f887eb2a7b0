"""A probe measures on real items: of a sweep a resume goes on with them, of an inference nothing is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.runs import plan, resume
from shoal.api.session import Session
from shoal.api.views.lookup import open_run, runs
from shoal.api.whatif import probe

MODEL = """\
import time

class Length:
    def __call__(self, batch):
        time.sleep(0.002 * len(batch))
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
output: OUT
"""
COUNT = 2000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "trial.py").write_text("import time\ndef main(ms):\n    time.sleep(ms / 1000)\n")
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\ntrials: {grid: {ms: [20, 40, 60, 80]}, repeat: 6}\nrun: {function: 'trial:main'}\n"
    )
    (tmp_path / "length.py").write_text(MODEL)
    (tmp_path / "words.txt").write_text("".join(f"{'a' * (n % 7)}\n" for n in range(COUNT)))
    return tmp_path


def write_inference(folder: Path, output: str) -> None:
    (folder / "lengths.yaml").write_text(WORKLOAD.replace("OUT", output))


def test_a_probe_measures_on_real_items_and_a_resume_goes_on_from_there() -> None:
    probed = probe("sweep.yaml")
    summary = probed.summary
    assert probed.goes_on
    assert summary.state == "stopped"
    assert 0 < summary.items["done"] < 24
    assert plan("sweep.yaml").predicted_seconds is not None
    session = resume(summary.run)
    assert isinstance(session, Session)
    assert session.drive().items["done"] == 24
    with open_run(summary.run) as store:
        assert {row["attempt"] for row in store.rows()} == {1}


@pytest.mark.parametrize(
    "output",
    ["out/", "{path: out, preserve_order: true, json: length}", "größe/猫 🐟/out"],
    ids=["text", "section", "names"],
)
def test_a_probe_of_an_inference_teaches_the_plan_and_leaves_nothing(folder: Path, output: str) -> None:
    write_inference(folder, output)
    assert plan("lengths.yaml").predicted_seconds is None
    probed = probe("lengths.yaml")
    assert not probed.goes_on
    assert probed.summary.state == "stopped"
    assert probed.summary.items["done"] >= 3
    assert [path for path in folder.rglob("*") if "probe" in path.name or path.name == "out"] == []
    assert runs() == []
    assert plan("lengths.yaml").predicted_seconds is not None


def test_a_probe_does_not_touch_what_an_earlier_run_wrote(folder: Path) -> None:
    write_inference(folder, "out/")
    first = shoal.run("lengths.yaml", display=False)
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    probe("lengths.yaml")
    probe("lengths.yaml", sets=["limits.errors=1"])
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")} == before
    assert first.table().num_rows == COUNT
    assert [each.run for each in runs()] == [first.id]


def test_a_probe_that_failed_leaves_its_record_and_no_output(folder: Path) -> None:
    write_inference(folder, "out/")
    probed = probe("lengths.yaml", sets=["model.function=length:Broken"])
    assert probed.summary.state == "failed"
    assert not probed.goes_on
    assert [each.run for each in runs()] == [probed.summary.run]
    assert not list(folder.glob("out*"))
