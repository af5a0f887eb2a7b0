"""Trials that are runs of another workload: what columns become, what is checked, and what a run's answer becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal import spec as specs
from shoal.engine.workers.process import run_command
from shoal.engine.workers.runner import Cancelled, Failed, Work
from shoal.errors import SpecError
from shoal.model import Node
from shoal.spec import Cell
from shoal.work.sweep.job import SweepJob, prepare
from shoal.work.sweep.workload_trial import WorkloadTrial, metrics_of, settings_of, why

MODEL = """\
class Length:
    def __call__(self, lines):
        return [{"length": len(line)} for line in lines]
"""
INFER = """\
kind: infer
name: lengths
input: {text: lines.txt}
model: {function: "mine:Length"}
output: out/
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "lines.txt").write_text("".join(f"line {number}\n" for number in range(12)))
    (tmp_path / "infer.yaml").write_text(INFER)
    return tmp_path


def job(folder: Path, grid: Mapping[str, Any] | None = None, **keys: Any) -> SweepJob:
    document = {
        "kind": "sweep",
        "trials": {"grid": grid or {"tune.batch": [1, 4]}},
        "run": {"workload": "infer.yaml"},
    }
    spec = specs.parse({**document, **keys}, folder=str(folder))
    assert isinstance(spec, specs.Sweep)
    return prepare(spec)


def refusal(folder: Path, **keys: Any) -> str:
    with pytest.raises(SpecError) as error:
        job(folder, **keys)
    return f"{error.value} {error.value.hint}"


def test_columns_set_values_by_their_exact_text_and_blanks_set_nothing() -> None:
    cells = {"tune.batch": Cell(8, "8"), "name": Cell("007", "007"), "runtime": Cell(None, "")}
    assert settings_of(cells) == (("tune.batch=8", "name=007"), None)
    assert settings_of({**cells, "limit": Cell(10, "010")}).options() == [
        "--set=tune.batch=8",
        "--set=name=007",
        "--limit=010",
    ]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"tune.bach": [1, 2]}, "column 'tune.bach': unknown key"),
        ({"tune.batch": [1, "many"]}, "column 'tune.batch': expected a whole number"),
        ({"tune.batch": [1], "tune.workers": [1, 0]}, "column 'tune.workers': expected a whole number"),
        ({"limit": [10, 0]}, "column 'limit': expected a whole number of at least 1, found '0'"),
        ({"output.path": ["x"]}, "column 'output.path': each trial has an output of its own"),
    ],
    ids=["unknown", "value", "value of a later axis", "limit", "output"],
)
def test_a_column_that_the_workload_does_not_take_is_refused(
    folder: Path, grid: dict[str, Any], words: str
) -> None:
    assert words in refusal(folder, grid=grid)


def test_an_unknown_column_is_told_once_and_with_the_nearest_name(folder: Path) -> None:
    told = refusal(folder, grid={"tune.bach": [1, 2, 3]})
    assert told.count("tune.bach") == 1
    assert "Did you mean 'batch'?" in told


def test_the_values_of_a_table_and_the_ends_of_a_search_are_checked_too(folder: Path) -> None:
    (folder / "table.csv").write_text("tune.batch\n1\nnone\n")
    assert "column 'tune.batch': expected" in refusal(folder, trials={"table": "table.csv"})
    search = {"search": {"tune.batch": {"int": [0, 8]}}, "count": 2, "sampler": "random"}
    assert "column 'tune.batch': expected" in refusal(folder, trials=search)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "run.workload: There is no file other.yaml"),
        ("kind: cluster\n", "expected a workload, found 'cluster'"),
        ("kind: sweep\ntrials: {grid: {a: [1]}}\nrun: {command: 'echo {a}'}\n", "other.yaml is a sweep"),
        (INFER.replace("model:", "modell:"), "run.workload: other.yaml:4: modell: unknown key"),
    ],
    ids=["missing", "cluster", "sweep", "wrong"],
)
def test_a_file_that_no_trial_could_run_is_refused(folder: Path, text: str | None, words: str) -> None:
    if text is not None:
        (folder / "other.yaml").write_text(text)
    assert words in refusal(folder, run={"workload": "other.yaml"})


def test_a_workload_that_is_complete_only_with_the_columns_is_accepted(folder: Path) -> None:
    (folder / "infer.yaml").write_text(INFER.replace("input: {text: lines.txt}\n", ""))
    assert "input: missing" in refusal(folder)
    job(folder, {"input.text": ["lines.txt"]})


def test_patterns_for_the_output_of_a_command_are_refused(folder: Path) -> None:
    assert "metrics" in refusal(folder, metrics={"loss": "loss (.*)"})


def test_a_trial_has_the_largest_node_to_itself_unless_cpus_are_given(folder: Path) -> None:
    nodes = [Node("small", 2, 1 << 30), Node("large", 8, 1 << 30, gpu=1)]
    made = job(folder)
    made.fit(nodes)
    assert (made.need.cpu, made.need.gpu) == (8, 1)
    made.fit(nodes[:1])
    assert (made.need.cpu, made.need.gpu) == (2, 0)
    made = job(folder, resources={"cpu": 1})
    made.fit(nodes)
    assert (made.need.cpu, made.need.gpu) == (1, 0)
    made = job(folder, placement={"node": "small"}, resources={"memory": 1})
    made.fit(nodes)
    assert made.need.cpu == 2


def test_a_workload_outside_of_the_folder_has_to_be_reachable(folder: Path) -> None:
    assert job(folder).local_paths() == {}
    inner = folder / "inner"
    inner.mkdir()
    made = job(inner, run={"workload": "../infer.yaml"})
    assert [os.path.realpath(path) for path in made.local_paths().values()] == [str(folder / "infer.yaml")]


DOCUMENT = {
    "kind": "infer",
    "state": "succeeded",
    "seconds": 2.0,
    "infer": {
        "rows": 30,
        "errors": 1,
        "seconds": 2.0,
        "rows_per_second": 15.0,
        "rows_per_second_without_listing": 20.0,
        "phase_seconds": {"listing": 0.5, "reading": 1.0, "decoding": 0.5, "preprocessing": 1.5},
        "reasons": {"truncated": 1},
        "runtime": "onnxruntime",
        "decisions": [
            {"name": "runtime", "choice": "onnxruntime", "why": "fastest"},
            {"name": "batch", "choice": 8, "why": "given"},
            {"name": "memory", "choice": 1000, "why": "measured"},
        ],
    },
}


def test_the_numbers_of_a_run_are_metrics_and_its_choices_are_texts() -> None:
    found = metrics_of(DOCUMENT)
    assert next(iter(found)) == "rows_per_second"
    assert found == {
        "rows_per_second": 15.0,
        "rows_per_second_without_listing": 20.0,
        "prepared_per_second": 10.0,
        "run_s": 2.0,
        "rows": 30,
        "errors": 1,
        "listing_s": 0.5,
        "reading_s": 1.0,
        "decoding_s": 0.5,
        "preprocessing_s": 1.5,
        "batch": "8",
        "runtime": "onnxruntime",
    }


def test_a_run_that_did_not_succeed_says_why() -> None:
    assert why({"error": "No model.", "hint": "Add one."}) == "No model. Add one."
    assert why({"state": "failed", "notes": ["2% were unreadable"]}) == "the run failed: 2% were unreadable"
    assert why({"state": "failed", "notes": []}) is None
    assert why({}) is None


def work(folder: Path, params: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setenv("SHOAL_REPORT", str(folder / "reports"))
    monkeypatch.chdir(folder)
    item = folder / "item"
    item.mkdir()
    log = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    return Work(1, 1, "t1", params, None, report=lambda metrics, step: None, folder=str(item), log_fd=log)


def test_a_trial_runs_the_workload_in_a_home_of_its_own_and_removes_the_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "infer.yaml").write_text(
        INFER.replace("out/", "{path: out/, preserve_order: true, json: label}")
    )
    found = WorkloadTrial("infer.yaml").run(work(folder, {"tune.batch": 4, "limit": 10}, monkeypatch))
    assert found is not None
    assert (found["rows"], found["batch"]) == (10, "4")
    assert sorted(path.name for path in (folder / "item").iterdir()) == ["run.json", "shoal"]
    assert not (folder / "out").exists()
    assert not (folder / ".shoal").exists()
    (spec,) = (folder / "item" / "shoal" / "runs").glob("*/spec.yaml")
    assert spec.is_file()


def test_a_trial_whose_run_is_refused_fails_with_the_words_of_that_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Failed, match=r"model\.function: mine\.py has no function 'Nope'"):
        WorkloadTrial("infer.yaml").run(work(folder, {"model.function": "mine:Nope"}, monkeypatch))


def test_what_a_command_prints_can_go_to_a_file_and_what_it_is_given_is_added_to_its_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; print(os.environ['FISH'], 'PATH' in os.environ); sys.stderr.write('aside')"
    run_command(
        ["python", "-c", code],
        work(folder, {}, monkeypatch),
        env={"FISH": "cod"},
        stdout=str(folder / "printed"),
    )
    assert (folder / "printed").read_text() == "cod True\n"
    assert "FISH" not in os.environ


def test_a_trial_that_is_cancelled_before_it_starts_starts_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = work(folder, {}, monkeypatch)
    cancelled.cancelled = ("stopped", "the run was stopped")
    with pytest.raises(Cancelled):
        WorkloadTrial("infer.yaml").run(cancelled)
    assert not (folder / "item" / "shoal").exists()
