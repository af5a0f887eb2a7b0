"""A driver of an inference is suspended right before it changes the output; another one takes over and ends the run."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

COUNT = 1000
SCORES = """
    import os, time

    class Model:
        def __call__(self, batch):
            time.sleep(0.0005 * len(batch))
            return [{"score": "N/A" if text == "77" else int(text), "by": os.environ["WHO"]} for text in batch]
"""


@pytest.fixture
def workload(place):
    place.write("numbers.txt", "".join(f"{number}\n" for number in range(COUNT)))
    place.write("mine.py", SCORES)
    document = {
        "kind": "infer",
        "name": "scores",
        "input": {"text": "numbers.txt"},
        "model": {"function": "mine:Model"},
        "output": "out/",
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
    assert len({row["row"] for row in table}) == len(table), "a row is there twice"
    return table


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("point", ["delete", "publish", "errors"])
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
