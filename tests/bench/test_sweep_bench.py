"""The benchmark itself works: every line is there, with small sizes. How fast anything is, no test says."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def run(*arguments, folder):
    command = [sys.executable, str(BENCH / "sweep.py"), "--quick", "--folder", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.long
def test_every_benchmark_gives_its_figures(tmp_path):
    done = run("--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    counts = [figure["key"] for figure in document["figures"]]
    assert {key: counts.count(key) for key in "abcdef"} == {"a": 2, "b": 1, "c": 4, "d": 3, "e": 1, "f": 2}
    assert all(figure["how"] for figure in document["figures"])
    assert next(figure["value"] for figure in document["figures"] if figure["key"] == "b") >= 1, "the ideal"
    assert document["surroundings"]["quick"] is True
    assert list(tmp_path.iterdir()) == []


def test_one_benchmark_can_be_chosen_and_is_printed_as_a_table(tmp_path):
    done = run("--only", "b", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line[0] for line in lines if " 50 ms " in line] == ["b"]
    assert "PYTHONDONTWRITEBYTECODE" in done.stdout


def test_a_benchmark_that_is_not_there_is_refused(tmp_path):
    done = run("--only", "b,x", folder=tmp_path)
    assert done.returncode == 2
    assert "'x'" in done.stderr


@pytest.mark.parametrize(
    "durations", [(5, 4, 3, 3, 3), (1,), (7, 7, 7, 2), (59, 59, 346, 77, 146, 146)], ids=str
)
def test_the_best_schedule_is_the_best_of_all(durations, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    from schedule import best_makespan

    every = product(range(3), repeat=len(durations))
    loads = [
        [sum(d for d, at in zip(durations, nodes, strict=True) if at == n) for n in range(3)]
        for nodes in every
    ]
    assert best_makespan(durations) == min(max(load) for load in loads)


def test_what_an_item_costs_is_measured_for_each_number_of_nodes():
    command = [sys.executable, str(BENCH / "nodes.py"), "--items=300", "--nodes=2,20", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert [figure["nodes"] for figure in figures] == [2, 20]
    assert all(0 < figure["pool_us"] < figure["us"] for figure in figures)
