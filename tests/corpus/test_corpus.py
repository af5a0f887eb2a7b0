"""Runs that earlier versions left behind are read, resumed and removed by this one. `make.py` says what they are."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import shoal
from corpus.conftest import Case, digests
from shoal.api import reading, workloads
from shoal.api.clustered import provider_for
from shoal.api.clusters import load
from shoal.cluster.agent import there
from shoal.store.profiles import recall

Unpack = Callable[[str], Case]

RUNS = ("sheet", "search", "inference", "reviews", "function", "failed")
ENDED = ("sheet", "search", "function", "failed")
STATES = dict.fromkeys(RUNS, "succeeded") | {
    "search": "stopped",
    "inference": "interrupted",
    "function": "failed",
    "failed": "failed",
}
ERRORS = {16, 33, 50, 67, 84, 101, 118}
"""The lines of the inference that cannot be used."""


def counts(case: Case) -> dict[str, int]:
    return {
        state: number for state, number in case.json("show", case.run, "--json")["counts"].items() if number
    }


# Looking.


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_listed_and_shown(unpack: Unpack, name: str) -> None:
    case = unpack(name)
    [listed] = case.json("ls", "--json")
    shown = case.json("show", case.run, "--json", "--why")
    assert (listed["run"], listed["state"]) == (shown["run"], shown["state"]) == (case.run, STATES[name])
    assert re.search(rf"^{case.run} +\w+ +{STATES[name]} ", case.shoal("ls"), re.MULTILINE)
    assert len(shown["items"]) == sum(shown["counts"].values()) >= 3
    assert shown["plan"]["decisions"]
    assert {item["node"] for item in shown["items"]} <= {"lab", None}
    told = case.shoal("show", case.run, "--why")
    assert f"{case.run}: " in told
    assert all(f"failed: {item['item']}" in told for item in shown["items"] if item["state"] == "failed")


@pytest.mark.parametrize("name", ENDED)
def test_results_are_what_the_earlier_version_wrote(unpack: Unpack, name: str) -> None:
    case = unpack(name)
    text = (case.run_folder / "results.csv").read_text()
    written = list(csv.DictReader(text.splitlines()))
    assert case.shoal("results", case.run, "--format=csv") == text
    rows = case.rows()
    keys = ("item", "state", "node", "started", "error")
    assert [[row[key] or "" for key in keys] for row in rows] == [
        [row[key] for key in keys] for row in written
    ]
    assert [row["attempt"] for row in rows] == [int(row["attempt"]) for row in written]
    table = case.shoal("results", case.run)
    assert [line.split()[0] for line in table.splitlines()][: len(rows) + 1] == [
        "item",
        *(row["item"] for row in rows),
    ]
    with reading.open_run(case.run) as store:
        assert store.table().equals(pq.read_table(case.run_folder / "results.parquet"))


@pytest.mark.parametrize("name", RUNS)
def test_a_report_is_made(unpack: Unpack, name: str) -> None:
    case = unpack(name)
    page = Path(case.shoal("report", case.run).strip()).read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert case.run in page
    assert STATES[name] in page


def test_logs_files_and_reports_of_a_sheet(unpack: Unpack) -> None:
    case = unpack("sheet")
    assert case.shoal("logs", case.run, "t0001").splitlines() == ["name 007 note ''", "loss 0.9091"]
    assert case.shoal("logs", case.run).count("no luck this time") == 2
    assert (
        Path(case.shoal("get", case.run, "t0004").strip(), "weights.txt").read_text() == "weights of żółw\n"
    )
    got = Path(case.shoal("get", case.run, "--to=got").strip())
    assert sorted(os.listdir(got)) == [f"t000{number}" for number in range(1, 9)]
    [best] = case.json("results", case.run, "--format=json", "--best=1")
    assert (best["name"], best["loss"]) == ("żółw", 0.6667)
    shown = case.json("show", case.run, "--json")
    flaky = [item for item in shown["items"] if item["params"]["name"] == "flaky"]
    assert [item["attempt"] for item in flaky] == [2, 2]
    assert [item["metrics"]["restored"] for item in flaky] == [f"{item['item']} saved this" for item in flaky]
    with reading.open_run(case.run) as store:
        assert [(each.step, each.metrics["progress"]) for each in store.reports(1)[:2]] == [
            (1, 0.5),
            (2, 1.0),
        ]


def test_curves_of_a_search(unpack: Unpack) -> None:
    case = unpack("search")
    found = counts(case)
    assert found["done"] + found["pruned"] >= 12
    assert (found["stopped"], found["pruned"] > 3) == (2, True)
    told = list(csv.DictReader((case.run_folder / "metrics" / "reports.csv").read_text().splitlines()))
    with reading.open_run(case.run) as store:
        kept = [
            (record.item.id, str(each.step), each.metrics["accuracy"])
            for record in store.items()
            for each in store.reports(record.item.seq)
            if each.step is not None
        ]
    written = [(row["item"], row["step"], float(row["accuracy"])) for row in told if row["step"]]
    assert sorted(kept) == sorted(written)
    assert len(kept) > 30


def test_the_rows_of_half_an_inference(unpack: Unpack) -> None:
    case = unpack("inference")
    assert counts(case)["done"] == 8
    assert [row["row"] for row in case.rows()] == [row for row in range(80) if row not in ERRORS]
    lines = case.shoal("results", case.run, "--format=csv").splitlines()
    assert lines[:2] == ["path,row,length,text", "lines.txt,0,7,line 0 "]
    assert "lines.txt" in case.shoal("results", case.run)


def test_the_rows_and_findings_of_a_whole_inference(unpack: Unpack) -> None:
    case = unpack("reviews")
    rows = case.rows()
    assert sorted(row["row"] for row in rows) == list(range(2000))
    assert all(row["length"] == len(f"review {row['row']} {'x' * (row['row'] % 7)}") for row in rows)
    assert "found out: batch: " in case.shoal("show", case.run, "--why")
    assert case.json("show", case.run, "--json")["infer"]["rows"] == 2000
    assert "No item of reviews-" in case.refused("get", case.run)


def test_the_ways_in_which_trials_failed(unpack: Unpack) -> None:
    case = unpack("failed")
    assert [(row["state"], row["attempt"], row["error"]) for row in case.rows()] == [
        ("done", 1, None),
        ("failed", 2, "ValueError: no luck with a żółw (trial.py:14)"),
        ("failed", 2, "crashed: the process exited with status 3"),
        *[("failed", 2, row["error"]) for row in case.rows() if "SIGKILL" in str(row["error"])],
        ("failed", 2, "timed out after 1.0s"),
    ]
    assert "Traceback" in case.shoal("logs", case.run, "t0002")
    assert "this one ends with killed" in case.shoal("logs", case.run, "t0004")


@pytest.mark.parametrize("name", RUNS)
def test_looking_at_a_run_changes_nothing_of_it(unpack: Unpack, name: str) -> None:
    case = unpack(name)
    if (
        name == "inference"
    ):  # Its driver was killed: the first who opens the record puts in order what that left.
        case.shoal("ls")
    before, tables = digests(case.run_folder), dump(case.run_folder / "run.db")
    for command in ("ls", "show", "logs", "results"):
        case.shoal(command, *([case.run] if command != "ls" else []))
    for more in ("--json", "--why"):
        case.shoal("show", case.run, more)
    for more in ("csv", "json"):
        case.shoal("results", case.run, f"--format={more}")
    assert digests(case.run_folder) == before
    assert dump(case.run_folder / "run.db") == tables


def dump(record: Path) -> list[str]:
    """All that is in a record, and its version."""
    with closing(sqlite3.connect(f"file:{record}?mode=ro&immutable=1", uri=True)) as connection:
        return [str(connection.execute("PRAGMA user_version").fetchone()), *connection.iterdump()]


@pytest.mark.parametrize("name", ["sheet", "inference"])
def test_a_run_is_read_where_nothing_can_be_written(unpack: Unpack, name: str, open_folder: Path) -> None:
    case = unpack(name)
    folder = open_folder / name
    shutil.copytree(case.folder, folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    before = digests(folder)

    def only_reading(*arguments: str, code: int = 0) -> str:
        command = [*BECOME_SOMEBODY, sys.executable, "-m", "shoal", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    assert case.run in only_reading("ls")
    assert f", {STATES[name]}" in only_reading("show", case.run)
    assert json.loads(only_reading("results", case.run, "--format=json")) == case.rows()
    assert only_reading("resume", case.run, code=2).startswith("Error: ")
    assert digests(folder) == before


IS_ROOT = os.geteuid() == 0
READING = "+dac_read_search"
"""A right that is left to who was root: Python may be in a private folder."""
BECOME_SOMEBODY = (
    f"setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps={READING} --ambient-caps={READING}".split()
    if IS_ROOT
    else []
)
"""Root may write whatever the modes of files say."""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may read, also what is above it."""
    if IS_ROOT and shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv, to become somebody who may not write")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


# Going on.


def test_a_finished_sheet_has_nothing_left_to_do_until_rows_are_added(unpack: Unpack) -> None:
    case = unpack("sheet")
    before, ran = case.rows(), case.ran()
    assert case.json("resume", case.run, "--json")["state"] == "succeeded"
    assert (case.rows(), case.ran()) == (before, ran)
    with open("experiments.csv", "a") as file:
        file.write("new,0.25,added\n")
    ended = case.json("resume", case.run, "--json")
    assert (ended["state"], ended["items"]["done"]) == ("succeeded", 10)
    after = case.rows()
    assert after[:8] == before
    assert [(row["name"], row["loss"], row["restored"]) for row in after[8:]] == [("new", 0.8, "nothing")] * 2
    assert sorted(case.ran()[len(ran) :]) == ["t0009 1", "t0010 1"]
    remove(case)


def test_a_stopped_search_goes_on_with_what_had_not_ended(unpack: Unpack) -> None:
    case = unpack("search")
    before, ran = case.rows(), case.ran()
    ended = case.json("resume", case.run, "--json")
    assert ended["state"] == "succeeded"
    assert sum(ended["items"].values()) == 20
    after = {row["item"]: row for row in case.rows()}
    assert len(after) == 20
    assert {row["state"] for row in after.values()} == {"done", "pruned"}
    assert all(after[row["item"]] == row for row in before if row["state"] != "stopped")
    again = [line.split()[0] for line in case.ran()[len(ran) :]]
    stopped = [row["item"] for row in before if row["state"] == "stopped"]
    assert sorted(again) == sorted(stopped + [f"t{seq:04}" for seq in range(len(before) + 1, 21)])
    assert all(row["is_own"] for row in after.values() if row["state"] == "done"), (
        "not another trial's checkpoint"
    )
    best = max(row["accuracy"] for row in after.values() if row["state"] == "done")
    assert ended["best"]["accuracy"] == best
    remove(case)


def test_a_killed_inference_ends_with_a_row_for_each_input(unpack: Unpack) -> None:
    case = unpack("inference")
    parts = {
        name: digest for name, digest in digests(case.folder / "out").items() if name.startswith("part-")
    }
    assert len(parts) == 8
    ended = case.json("resume", case.run, "--json")
    assert (ended["state"], ended["infer"]["rows"], ended["infer"]["errors"]) == ("succeeded", 113, 7)
    rows = case.rows()
    assert sorted(row["row"] for row in rows) == [row for row in range(120) if row not in ERRORS]
    assert all(row["text"].startswith(f"line {row['row']} ") for row in rows)
    errors = pq.read_table("out/errors.parquet").to_pylist()
    assert {row["row"] for row in errors} == ERRORS
    assert {row["reason"] for row in errors} >= {"the model failed: ValueError: line 16 is no good"}
    assert parts.items() <= digests(case.folder / "out").items()
    again = case.json("resume", case.run, "--json")
    assert again["items"] == ended["items"]
    remove(case)
    assert (case.folder / "out" / "part-000001.parquet").exists()


def test_a_finished_inference_has_nothing_left_to_do(unpack: Unpack) -> None:
    case = unpack("reviews")
    before = digests(case.folder / "out")
    ended = case.json("resume", case.run, "--json")
    assert (ended["state"], ended["infer"]["rows"]) == ("succeeded", 2000)
    assert digests(case.folder / "out") == before
    remove(case)


def test_failed_rows_of_a_function_that_was_sent_by_value_are_tried_again(unpack: Unpack) -> None:
    case = unpack("function")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("functions sent by value are for the Python that sent them: 3.11")
    before, ran = case.rows(), case.ran()
    assert case.json("resume", case.run, "--json", code=1)["items"]["failed"] == 2
    assert case.ran() == ran
    Path("mended").touch()
    run = shoal.resume(case.run, failed=True, display=False)
    assert (run.state, run.best and run.best["y"]) == ("succeeded", 40)
    assert run.rows()[:3] == before[:3]
    assert [row["y"] for row in run.rows()] == [0, 10, 20, 30, 40]
    assert case.ran()[len(ran) :] == ["3", "4"]
    remove(case)


def test_failed_trials_are_tried_again_and_no_others(unpack: Unpack) -> None:
    case = unpack("failed")
    before, ran = case.rows(), case.ran()
    assert case.json("resume", case.run, "--json", code=1)["items"]["failed"] == 4
    assert case.ran() == ran
    Path("mended").touch()
    ended = case.json("resume", case.run, "--failed", "--json")
    assert (ended["state"], ended["items"]["done"]) == ("succeeded", 5)
    after = case.rows()
    assert after[0] == before[0]
    assert [(row["y"], row["attempt"], row["error"]) for row in after[1:]] == [
        (10 * x, 1, None) for x in range(2, 6)
    ]
    assert sorted(case.ran()[len(ran) :]) == ["2", "3", "4", "5"]
    remove(case)


def stored(case: Case) -> str:
    [copy] = (case.folder / "shared" / "runs").iterdir()
    return copy.name


def test_a_run_is_brought_back_from_a_storage_and_goes_on(unpack: Unpack) -> None:
    case = unpack("storage")
    run = stored(case)
    assert case.json("ls", "--json") == []
    ended = case.json("resume", run, "--cluster=lab.yaml", "--json")
    assert (ended["state"], ended["items"]["done"]) == ("succeeded", 6)
    assert [(row["y"], row["attempt"]) for row in case.rows()] == [(10 * x, 1) for x in range(6)]
    assert case.ran() == ["0", "1", "2", "3", "4", "4", "5"]
    assert Path(case.shoal("get", run, "t0001").strip(), "left.txt").read_text() == "left by 0\n"
    assert "trial 0\n" in case.shoal("logs", run, "t0001")
    remove(case)


NOT_YET = pytest.mark.xfail(
    strict=True, reason="checkpoints of before are not found yet under their new names"
)


@NOT_YET
def test_a_trial_whose_machine_is_gone_goes_on_from_the_checkpoint_of_before(unpack: Unpack) -> None:
    case = unpack("storage")
    case.shoal("resume", stored(case), "--cluster=lab.yaml")
    assert [row["restored"] for row in case.rows()] == ["nothing"] * 4 + ["4 saved this", "nothing"]


@NOT_YET
def test_trials_that_were_stopped_go_on_from_the_checkpoints_of_before(unpack: Unpack) -> None:
    case = unpack("search")
    stopped = [row["item"] for row in case.rows() if row["state"] == "stopped"]
    case.shoal("resume", case.run)
    assert ["goes on after step 3" in case.shoal("logs", case.run, item) for item in stopped] == [True, True]


def test_a_checkpoint_of_a_trial_that_was_never_recorded_is_nobodys(unpack: Unpack) -> None:
    case = unpack("search")
    new = f"t{len(case.rows()) + 1:04}"
    kept = case.run_folder / "checkpoints" / new
    kept.mkdir()
    (kept / "step.txt").write_text("0.5 7")
    case.shoal("resume", case.run)
    assert "goes on after step 0" in case.shoal("logs", case.run, new)


def remove(case: Case) -> None:
    run = case.run
    case.shoal("rm", run)
    assert case.json("ls", "--json") == []
    assert not (case.folder / ".shoal" / "runs" / run).exists()
    assert "There is no run" in case.refused("show", run)


# What is elsewhere, and what was learned.

SSH = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec sh -c "$2"\n'
"""Every host is this machine."""


def test_a_detached_run_is_reached_through_what_is_kept_of_it(
    unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = unpack("detached")
    [stub] = Path(".shoal", "detached").glob("*.json")
    stub.write_text(re.sub(r'"[^"]*/(\w+\.yaml)"', rf'"{case.folder}/\1"', stub.read_text()))
    os.mkdir("bin")
    Path("bin", "ssh").write_text(SSH)
    Path("bin", "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{case.folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(case.folder / "data"))
    home = there.home_folder(provider_for(load("lab.yaml"), "lab.yaml").detached().key)
    shutil.move("head", home)
    run = stub.stem

    [listed] = case.json("ls", "--json")
    assert (listed["run"], listed["state"]) == (run, "succeeded")
    assert f"{run}: sweep away, succeeded" in case.shoal("show", run)
    assert "trial 2 on the head" in case.shoal("logs", run)
    assert Path(case.shoal("get", run, "t0003").strip(), "left.txt").read_text() == "left by 3\n"
    assert run in Path(case.shoal("report", run).strip()).read_text()
    case.shoal("rm", run)
    assert not Path(home, "runs", run).exists()
    assert case.json("ls", "--json") == []


def test_durations_that_were_measured_still_make_a_plan(unpack: Unpack) -> None:
    case = unpack("sheet")
    predicted = case.json("plan", "sheet.yaml", "--json")["predicted_seconds"]
    assert 0 < predicted["low"] <= predicted["mid"] <= predicted["high"]
    shutil.rmtree(case.folder / ".shoal")
    assert case.json("plan", "sheet.yaml", "--json")["predicted_seconds"] is None


def test_settings_that_were_learned_still_make_a_plan(unpack: Unpack) -> None:
    case = unpack("reviews")
    job: Any = workloads.from_file("reviews.yaml").job
    with closing(sqlite3.connect(".shoal/learned.db")) as connection, connection:
        # Kept for the versions of libraries that there were then; here they may be others.
        connection.execute("UPDATE learned SET fingerprint=?", (job.fingerprint,))
        [document] = connection.execute("SELECT document FROM learned").fetchone()
    chosen = json.loads(document)["chosen"]
    plan = case.json("plan", "reviews.yaml", "--cluster=lab.yaml", "--json")
    decided = {each["name"]: each for each in plan["decisions"]}
    assert (decided["batch"]["choice"], decided["workers"]["choice"]) == (chosen["batch"], chosen["workers"])
    assert decided["batch"]["why"] == "as in the last run"
    assert plan["predicted_seconds"]["mid"] > 2000 / chosen["rate"]
    os.unlink(".shoal/learned.db")
    plan = case.json("plan", "reviews.yaml", "--cluster=lab.yaml", "--json")
    assert plan["predicted_seconds"] is None


def test_what_was_learned_is_kept_by_the_next_run(unpack: Unpack) -> None:
    case = unpack("sheet")
    known = durations(case)
    assert len(known) == 4
    with open("experiments.csv", "a") as file:
        file.write("new,0.25,added\n")
    case.shoal("resume", case.run)
    assert durations(case) > known


def durations(case: Case) -> set[str]:
    """The parameters, by digest, of which it is known how long they take."""
    job: Any = workloads.from_file("sheet.yaml").job
    profile = recall(str(case.folder / ".shoal"), job.fingerprint)
    assert profile is not None
    return set(profile.seconds)
