"""Runs that earlier versions left behind are read as they were, and are not changed by that."""

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
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from corpus.conftest import ERRORS, Case, Unpack, digests
from shoal.api.views import lookup

RUNS = ("sheet", "search", "inference", "reviews", "function", "failed")
ENDED = ("sheet", "search", "function", "failed")
STATES = dict.fromkeys(RUNS, "succeeded") | {
    "search": "stopped",
    "inference": "interrupted",
    "function": "failed",
    "failed": "failed",
}


def counts(case: Case) -> dict[str, int]:
    return {
        state: number for state, number in case.json("show", case.run, "--json")["counts"].items() if number
    }


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
    with lookup.open_run(case.run) as store:
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
    with lookup.open_run(case.run) as store:
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
    with lookup.open_run(case.run) as store:
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
