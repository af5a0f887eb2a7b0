"""Comparing settings of another workload with one file: a sweep of an inference, from the command line to averages."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

MODEL = """\
import time

class Length:
    def __call__(self, lines):
        return [{"length": len(line)} for line in lines]

class Slow:
    def __call__(self, lines):
        time.sleep(60)
"""
INFER = """\
kind: infer
name: lengths
input: {text: lines.txt}
model: {function: "mine:Length"}
output: out/
tune: {workers: 1, threads: 1}
"""
COMPARE = """\
kind: sweep
name: compare
trials:
  grid: {tune.batch: [1, 4], limit: [10, 20]}
  repeat: 2
run: {workload: infer.yaml}
objective: {metric: rows_per_second, goal: max}
"""


def write(folder: Path) -> None:
    (folder / "mine.py").write_text(MODEL)
    (folder / "lines.txt").write_text("".join(f"line {number}\n" for number in range(40)))
    (folder / "infer.yaml").write_text(INFER)
    (folder / "compare.yaml").write_text(COMPARE)


class Compared:
    """A folder in which the comparison was run."""

    def __init__(self, folder: Path) -> None:
        (folder / ".shoal").mkdir()
        write(folder)
        self.folder = folder
        self.done = self.shoal("run", "compare.yaml")

    def shoal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "shoal", *arguments],
            cwd=self.folder,
            env={**os.environ, "SHOAL_LEASES": str(self.folder / "leases"), "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("compared"))


def rows(compared: Compared, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        compared.shoal("results", "last", "--format", "json", *options).stdout
    )
    return found


def test_every_trial_is_a_run_with_the_settings_of_its_row(compared: Compared) -> None:
    assert compared.done.returncode == 0, compared.done.stderr
    found = rows(compared)
    assert len(found) == 8
    for row in found:
        assert (row["rows"], row["batch"], row["errors"]) == (row["limit"], str(row["tune.batch"]), 0)
        assert row["rows_per_second"] > 0
        assert row["workers"] == "1"


def test_trials_run_one_after_the_other_in_homes_of_their_own_and_leave_no_output(compared: Compared) -> None:
    assert not (compared.folder / "out").exists()
    (run,) = (compared.folder / ".shoal" / "runs").iterdir()
    items = sorted((run / "items").iterdir())
    assert [item.name for item in items] == [f"t000{number}" for number in range(1, 9)]
    for item in items:
        assert sorted(path.name for path in item.iterdir()) == ["run.json", "shoal"]
        assert len(list((item / "shoal" / "runs").glob("*/run.db"))) == 1
    shown = json.loads(compared.shoal("show", "last", "--why", "--json").stdout)
    assert shown["plan"]["workers"] == 1


def test_averages_have_a_row_for_each_setting(compared: Compared) -> None:
    single, found = rows(compared), rows(compared, "--average")
    assert [(row["tune.batch"], row["limit"], row["count"]) for row in found] == [
        (1, 10, 2),
        (1, 20, 2),
        (4, 10, 2),
        (4, 20, 2),
    ]
    of_first = [row["rows_per_second"] for row in single if (row["tune.batch"], row["limit"]) == (1, 10)]
    assert found[0]["rows_per_second"] == pytest.approx(sum(of_first) / 2)
    assert found[0]["deviation"] == pytest.approx(abs(of_first[0] - of_first[1]) / 2**0.5)
    (best,) = rows(compared, "--average", "--best", "1")
    assert best["rows_per_second"] == max(row["rows_per_second"] for row in found)


def test_averages_can_be_had_in_every_format(compared: Compared) -> None:
    found = rows(compared, "--average")
    printed = compared.shoal("results", "last", "--average", "--format", "csv").stdout
    (header, *lines) = csv.reader(io.StringIO(printed))
    assert header == list(found[0])
    assert len(lines) == 4
    table = compared.shoal("results", "last", "--average").stdout.splitlines()
    assert table[0].split()[:5] == ["tune.batch", "limit", "count", "rows_per_second", "±"]
    assert len(table) == 5


def test_the_end_of_the_run_shows_the_averages_and_the_best_of_them(compared: Compared) -> None:
    lines = compared.done.stdout.splitlines()
    assert lines[0].split() == ["tune.batch", "limit", "count", "rows_per_second", "±", "seconds"]
    assert len(lines) == 6
    assert lines[5].startswith("Best on average: rows_per_second ")
    assert "--average" in compared.done.stderr


def test_stopping_the_sweep_stops_the_run_inside_it_cleanly(tmp_path: Path, start: Any) -> None:
    write(tmp_path)
    process = start("run", "compare.yaml", "--set", 'trials.grid={model.function: ["mine:Slow"]}')
    inner: list[Path] = []
    until = time.monotonic() + 60
    while not any(path.stat().st_size for path in inner):
        assert time.monotonic() < until, "the run inside did not start"
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
        inner = list(tmp_path.glob(".shoal/runs/*/items/*/shoal/runs/*/run.db"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 3
    (answer,) = tmp_path.glob(".shoal/runs/*/items/*/run.json")
    assert json.loads(answer.read_text())["state"] == "stopped"


def test_averages_of_anything_but_a_sweep_are_refused(tmp_path: Path, shoal: Any) -> None:
    write(tmp_path)
    assert shoal("run", "infer.yaml", "--limit", "4").returncode == 0
    refused = shoal("results", "last", "--average")
    assert refused.returncode == 2
    assert "has no trials to average" in refused.stderr
