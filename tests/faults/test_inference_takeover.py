"""A driver of an inference is suspended right before it changes the output; another one takes over and ends the run."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from faults.conftest import SHOAL

COUNT = 1000
SCORES = """
    import os, time

    class Model:
        def __call__(self, batch):
            time.sleep(float(os.environ.get("PAUSE", "0.0005")) * len(batch))
            return [{"score": "N/A" if text == "77" else int(text), "by": os.environ["WHO"]} for text in batch]
"""


@pytest.fixture
def workload(place):
    place.write("in/numbers.txt", "".join(f"{number}\n" for number in range(COUNT)))
    place.write("mine.py", SCORES)
    document = {
        "kind": "infer",
        "name": "scores",
        "input": {"text": "in/"},
        "model": {"function": "mine:Model"},
        "output": {"path": "out/", "preserve_order": True},
        "tune": {"item": 50, "batch": 25, "workers": 2},
        "limits": {"errors": "1%"},
    }
    place.write("scores.yaml", json.dumps(document))
    place.machine(2)
    with open(place.folder / "lab.yaml", "a") as file:
        file.write("storage: ../shared\n")
    return "scores.yaml"


def rows(place):
    import pyarrow.parquet as pq

    table = pq.read_table(place.folder / "out").to_pylist()
    assert len({(row["path"], row["row"]) for row in table}) == len(table), "a row is there twice"
    return table


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("point", ["delete", "publish"])
def test_a_driver_that_is_suspended_before_it_changes_the_output_harms_no_row(place, workload, point):
    arguments = ("scores.yaml", "--cluster", "lab.yaml", "--json")
    if point == "delete":  # What an earlier run wrote.
        place.shoal("run", *arguments, code=0, env={"WHO": "before"})
    first = place.start("run", *arguments, env={"WHO": "first", "SHOAL_SUSPEND_AT": point})
    place.until(lambda: is_stopped(first.pid), first)
    run = next(each for each in place.runs() if place.store(each).info().state == "running")
    env = {"WHO": "heir"}
    if point != "delete":  # By then, there is a copy in the storage for others.
        env["SHOAL_HOME"] = str(place.folder.parent / "elsewhere")
    resume = ("resume", run, "--cluster", "lab.yaml", "--take-over", "--json")
    ended = json.loads(place.shoal(*resume, code=0, env=env).stdout)
    assert (ended["state"], ended["infer"]["rows"], ended["infer"]["errors"]) == ("succeeded", COUNT - 1, 1)
    before = rows(place)
    first.send_signal(signal.SIGCONT)
    assert "was taken over by" in json.loads(place.end(first, 1).stdout)["error"]
    assert rows(place) == before
    assert len(before) == COUNT
    assert [row["row"] for row in before if row["reason"]] == [77]
    if point == "delete":
        assert {row["by"] for row in before if not row["reason"]} == {"heir"}


def parts(place):
    return len(list((place.folder / "out").glob("part-*.parquet")))


def test_parts_that_the_copy_of_a_run_does_not_know_are_in_nobodys_way(place, workload):
    """The machine that drove is lost some time after it copied the run: others resume from what it knew then, and
    find other inputs first."""
    first = place.start("run", workload, "--cluster", "lab.yaml", env={"WHO": "first", "PAUSE": "0.02"})
    copies = place.folder.parent / "shared" / "runs"
    place.until(lambda: list(copies.glob("*/copies/1/run.db")), first)
    known = parts(place)
    place.until(lambda: parts(place) >= known + 4, first)
    [run] = place.runs()
    place.kill(first)
    place.write("in/before.txt", "".join(f"{number}\n" for number in range(200)))
    env = {"WHO": "heir", "SHOAL_HOME": str(place.folder.parent / "elsewhere")}
    resume = ("resume", run, "--cluster", "lab.yaml", "--take-over", "--json")
    ended = json.loads(place.shoal(*resume, code=0, env=env).stdout)
    assert (ended["state"], ended["items"]["failed"]) == ("succeeded", 0)
    assert len(rows(place)) == COUNT + 200


@pytest.mark.root
def test_the_output_of_a_run_whose_home_is_hidden_from_us_is_not_taken(place, workload):
    """As with containers that have the name of their host, and other mounts."""
    home, other = place.folder.parent / "hidden" / "one", place.folder.parent / "other"
    home.mkdir(parents=True)
    first = place.start("run", workload, env={"WHO": "first", "PAUSE": "0.01", "SHOAL_HOME": str(home)})
    place.until(lambda: parts(place) >= 2, first)
    command = f"mount -t tmpfs tmpfs {home.parent} && exec {SHOAL} run {workload} --json"
    second = place.start_program(
        ["unshare", "--mount", "sh", "-c", command], env={"WHO": "second", "SHOAL_HOME": str(other)}
    )
    refused = json.loads(place.end(second, 2).stdout)
    assert "which may still be running" in refused["error"], refused
    place.end(first, 0)
    assert {row["by"] for row in rows(place) if not row["reason"]} == {"first"}
