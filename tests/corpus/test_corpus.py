"""Runs that earlier versions left behind are resumed and removed by this one. `make.py` says what they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import shoal
from corpus.conftest import ERRORS, Case, Unpack, digests
from shoal.api import workloads
from shoal.api.clusters.cluster_machines import provider_for
from shoal.api.clusters.lifecycle import load
from shoal.cluster.agent import there
from shoal.store.profiles import recall


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


def test_a_trial_whose_machine_is_gone_goes_on_from_the_checkpoint_of_before(unpack: Unpack) -> None:
    case = unpack("storage")
    case.shoal("resume", stored(case), "--cluster=lab.yaml")
    assert [row["restored"] for row in case.rows()] == ["nothing"] * 4 + ["4 saved this", "nothing"]


def test_trials_that_were_stopped_go_on_from_the_checkpoints_of_before(unpack: Unpack) -> None:
    case = unpack("search")
    stopped = [row["item"] for row in case.rows() if row["state"] == "stopped"]
    case.shoal("resume", case.run)
    assert ["goes on after step 3" in case.shoal("logs", case.run, item) for item in stopped] == [True, True]


def test_a_checkpoint_of_a_trial_that_was_never_recorded_is_nobodys(unpack: Unpack) -> None:
    case = unpack("search")
    before = {row["item"] for row in case.rows()}
    kept = case.run_folder / "checkpoints" / f"t{len(before) + 1:04}"
    kept.mkdir()
    (kept / "step.txt").write_text("0.5 7")
    case.shoal("resume", case.run)
    new = {row["item"] for row in case.rows()} - before
    assert new
    for item in new:
        assert "goes on after step 0" in case.shoal("logs", case.run, item)


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
