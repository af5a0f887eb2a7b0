"""Runs that were handed to a cluster: they go on without anybody, and are looked at and ended from the desk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from clusters.desk import Desk, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]


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


def test_a_detached_run_does_not_notice_that_the_desk_is_cut_off(desk: Desk, lab: str) -> None:
    run = desk.detach(lab, "cut-off", 60, 300)
    desk.host.cut()
    there = desk.bed["node0"]
    found = there.run(["find", there.home, "-path", f"*/runs/{run}"]).stdout.strip()
    until(lambda: there.exists(f"{found}/results.csv"), "the end of the run on the cluster")
    desk.host.mend()
    assert desk.state(run) == "succeeded"
    assert len(desk.rows(run)) == 60


def test_logs_are_followed_and_a_stop_and_a_resume_reach_the_run(desk: Desk, lab: str) -> None:
    run = desk.detach(lab, "long", 200, 400)
    follower = desk.start("logs", run, "-f")
    assert follower.stdout is not None
    assert "says hello" in follower.stdout.readline()
    stopped = desk.shoal("stop", run)
    assert "stopped" in stopped.stderr
    desk.end(follower)
    assert desk.state(run) == "stopped"
    done = desk.json("show", run)["counts"]["done"]
    assert 0 < done < 200
    assert desk.json("resume", run)["state"] == "running"
    shown = desk.json("show", run)
    assert shown["state"] == "running"
    assert shown["counts"]["waiting"] > 0, "it returned only when the run was over"
    assert desk.state(run) == "running", "what `ls` says"
    assert f"{run} is running" in desk.shoal("resume", run, code=2).stderr
    until(lambda: desk.state(run) == "succeeded", "the end of the run")
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
    file = desk.trials("wrong", 1, 1, run={"function": "wrong:nothing"})
    done = desk.shoal("run", file, "--cluster", lab, "--detach", code=2)
    assert "nothing" in done.stderr
    assert "wrong-" not in desk.shoal("ls").stdout
    without = desk.shoal("run", file, "--detach", code=2)
    assert "--cluster" in without.stderr
