"""Runs that were handed to a cluster: they go on without anybody, and are looked at and ended from the desk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.desk import Desk, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.slow]

TRIAL = """
import os, time
def main(n, ms):
    print("trial", n, "says hello", flush=True)
    with open(os.path.join(os.environ["SHOAL_ITEM_DIR"], "note"), "w") as file:
        file.write(f"from {n}")
    time.sleep(ms / 1000)
    return {"square": n * n}
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(["desk", "node0", "node1"]) as bed:
        yield bed


@pytest.fixture
def desk(bed: Testbed) -> Iterator[Desk]:
    yield Desk(bed)
    bed.reset()


@pytest.fixture
def lab(desk: Desk) -> str:
    lab = desk.cluster([{"host": "node0", "cpu": 2}, {"host": "node1", "cpu": 2}])
    desk.shoal("cluster", "up", lab)
    return lab


def detach(desk: Desk, lab: str, name: str, count: int, ms: int, **keys: Any) -> str:
    file = desk.sweep(name, TRIAL, {"n": list(range(count)), "ms": [ms]}, **keys)
    done = desk.json("run", file, "--cluster", lab, "--detach")
    assert done["state"] == "running"
    run = str(done["run"])
    assert run.startswith(f"{name}-")
    assert desk.shoal("ls").stdout.count(run) == 1
    return run


def state(desk: Desk, run: str) -> str:
    return next(str(each["state"]) for each in desk.json("ls") if each["run"] == run)


def test_a_detached_run_goes_on_when_the_desk_is_switched_off(desk: Desk, lab: str) -> None:
    run = detach(desk, lab, "alone", 100, 300)
    desk.host.kill()
    desk.host.boot()
    until(lambda: state(desk, run) == "succeeded", "the end of the run")
    rows = desk.rows(run)
    assert sorted(row["n"] for row in rows) == list(range(100))
    assert {row["node"] for row in rows} == {"node0", "node1"}
    shown = desk.json("show", run)
    assert shown["state"] == "succeeded"
    assert shown["counts"]["done"] == 100
    assert "trial 7 says hello" in desk.shoal("logs", run).stdout
    item = next(row["item"] for row in rows if row["n"] == 7)
    folder = desk.shoal("get", run, item).stdout.strip()
    assert desk.host.read(f"{folder}/note") == "from 7"
    assert desk.shoal("get", run, "--to", "all").stdout.strip() == f"{desk.folder}/all"
    assert desk.host.read(f"{desk.folder}/all/{item}/note") == "from 7"
    assert desk.json("resume", run)["state"] == "succeeded", "there is nothing left to do"
    desk.shoal("rm", run)
    assert run not in desk.shoal("ls").stdout
    assert not desk.bed["node0"].run(["find", desk.bed["node0"].home, "-name", f"{run}*"]).stdout


def test_a_detached_run_does_not_notice_that_the_desk_is_cut_off(desk: Desk, lab: str) -> None:
    run = detach(desk, lab, "cut-off", 60, 300)
    desk.host.cut()
    there = desk.bed["node0"]
    found = there.run(["find", there.home, "-path", f"*/runs/{run}"]).stdout.strip()
    until(lambda: there.exists(f"{found}/results.csv"), "the end of the run on the cluster")
    desk.host.mend()
    assert state(desk, run) == "succeeded"
    assert len(desk.rows(run)) == 60


def test_logs_are_followed_and_a_stop_and_a_resume_reach_the_run(desk: Desk, lab: str) -> None:
    run = detach(desk, lab, "long", 200, 400)
    follower = desk.start("logs", run, "-f")
    assert follower.stdout is not None
    assert "says hello" in follower.stdout.readline()
    stopped = desk.shoal("stop", run)
    assert "stopped" in stopped.stderr
    desk.end(follower)
    assert state(desk, run) == "stopped"
    done = desk.json("show", run)["counts"]["done"]
    assert 0 < done < 200
    assert desk.json("resume", run)["state"] == "running"
    shown = desk.json("show", run)
    assert shown["state"] == "running"
    assert shown["counts"]["waiting"] > 0, "it returned only when the run was over"
    assert state(desk, run) == "running", "what `ls` says"
    assert f"{run} is running" in desk.shoal("resume", run, code=2).stderr
    until(lambda: state(desk, run) == "succeeded", "the end of the run")
    assert sorted(row["n"] for row in desk.rows(run)) == list(range(200))


def test_what_a_script_prints_is_followed_while_it_reports_nothing(desk: Desk, lab: str) -> None:
    talk = "import time\nwhile True:\n    print('said at', time.time(), flush=True)\n    time.sleep(0.25)\n"
    desk.write("talk/talk.py", talk)
    document = {"kind": "sweep", "name": "talk", "trials": {"grid": {"n": [1]}}}
    file = desk.write("talk/talk.yaml", json.dumps({**document, "run": {"command": "python talk.py"}}))
    process = desk.start("run", file, "--cluster", lab, "--json")
    run = until(lambda: desk.run_of("talk"), "the run")
    until(lambda: desk.json("show", run)["counts"].get("running"), "a trial that runs")
    follower = desk.start("logs", run, "-f")
    assert follower.stdout is not None
    late: list[float] = []
    while len(late) < 20:
        line = follower.stdout.readline()
        assert line, "it follows as long as the trial runs"
        if "said at" in line:
            late.append(time.time() - float(line.split()[-1]))
    desk.shoal("stop", run)
    desk.end(follower)
    desk.end(process, code=3)
    assert sorted(late[10:])[5] < 2.0, f"seconds from print to sight: {late}"


def test_what_is_wrong_is_said_before_anything_is_handed_over(desk: Desk, lab: str) -> None:
    file = desk.sweep("wrong", TRIAL, {"n": [1], "ms": [1]}, run={"function": "wrong:nothing"})
    done = desk.shoal("run", file, "--cluster", lab, "--detach", code=2)
    assert "nothing" in done.stderr
    assert "wrong-" not in desk.shoal("ls").stdout
    without = desk.shoal("run", file, "--detach", code=2)
    assert "--cluster" in without.stderr
