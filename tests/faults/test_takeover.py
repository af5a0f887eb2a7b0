"""Two drivers of one run: a lock is lost, or one sleeps while another takes over, here or from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys

import pytest

from faults.conftest import SHOAL
from faults.pictures import done, fill, inference, output
from faults.storms import slow

TRIAL = """
    import os, time

    def main(x):
        with open("ran", "a") as file:
            file.write(f"{x} {os.getppid()}\\n")
        while x >= 2 and not os.path.exists("release"):
            time.sleep(0.01)
        return {"y": x}
"""


@pytest.fixture
def sweep(place):
    place.write("trial.py", TRIAL)
    return place.sweep("s", "{grid: {x: [0, 1, 2, 3, 4, 5, 6, 7]}}", "function: trial:main")


def release(place):
    """Let the trials end: but for the first two, they wait for it."""
    place.write("release", "")


def lose_lock(place):
    os.unlink(place.home / "runs" / place.runs()[-1] / "lock")


def test_a_lost_lock_does_not_give_a_run_two_drivers(place, sweep):
    first = place.start("run", sweep, "--cluster", place.machine(2), "--json")
    place.until(lambda: place.runs() and place.counts()["done"] >= 2, first)
    lose_lock(place)
    said = place.refused("resume", "s")
    assert f"(process {first.pid} on " in said
    assert "--take-over" in said
    assert place.json("show", "s", "--json")["state"] == "running"
    release(place)
    assert json.loads(place.end(first, 0).stdout)["items"]["done"] == 8
    ran = [line.split()[0] for line in (place.folder / "ran").read_text().splitlines()]
    assert sorted(ran) == [str(x) for x in range(8)]


def test_who_takes_a_run_over_has_it_alone_and_the_other_says_so(place, sweep):
    first = place.start("run", sweep, "--cluster", place.machine(2), "--json")
    place.until(lambda: place.runs() and place.counts()["done"] >= 2, first)
    before = {seq for seq, state in place.states().items() if state == "done"}
    second = place.start("resume", "s", "--take-over", "--json")
    replaced = place.end(first, 1)
    release(place)
    assert f"was taken over by process {second.pid} on " in json.loads(replaced.stdout)["error"]
    ended = json.loads(place.end(second, 0).stdout)
    assert (ended["state"], ended["items"]["done"]) == ("succeeded", 8)
    ran = [int(line.split()[0]) + 1 for line in (place.folder / "ran").read_text().splitlines()]
    assert [seq for seq in before if ran.count(seq) > 1] == []
    rows = place.table(ended["results"])
    assert [row["y"] for row in rows] == [str(x) for x in range(8)]


def test_a_sleeper_that_wakes_after_its_heir_has_ended_changes_nothing(place, sweep):
    first = place.start("run", sweep, "--cluster", place.machine(2), "--json")
    place.until(lambda: place.runs() and place.counts()["done"] >= 2, first)
    first.send_signal(signal.SIGSTOP)
    release(place)
    ended = place.json("resume", "s", "--take-over", "--json")
    assert ended["items"]["done"] == 8
    [run] = place.runs()
    before = {path: path.read_bytes() for path in (place.home / "runs" / run).glob("results.*")}
    states = place.states()
    first.send_signal(signal.SIGCONT)
    assert "was taken over by" in place.end(first, 1).stdout
    assert place.states() == states
    assert {path: path.read_bytes() for path in before} == before
    assert place.json("show", "s", "--json")["state"] == "succeeded"


@pytest.mark.always
@pytest.mark.long  # For the heir, who waits 20 s.
def test_a_driver_that_is_suspended_in_its_commit_is_named_and_no_turn_is_taken(place, sweep):
    release(place)
    first = place.start(
        "run", sweep, "--cluster", place.machine(2), "--json", env={"SHOAL_SUSPEND_AT": "commit"}
    )
    place.until(lambda: _is_stopped(first.pid), first)
    said = place.refused("resume", "s", "--take-over")
    assert f"(process {first.pid} on " in said
    with place.store() as store:
        assert store.turn() == 1
    first.send_signal(signal.SIGCONT)
    assert json.loads(place.end(first, 0).stdout)["items"]["done"] == 8


def test_a_run_that_is_taken_over_at_its_very_end_ends_once(place, sweep):
    release(place)
    first = place.start(
        "run", sweep, "--cluster", place.machine(4), "--json", env={"SHOAL_SUSPEND_AT": "end"}
    )
    place.until(lambda: _is_stopped(first.pid), first)
    ended = place.json("resume", "s", "--take-over", "--json")
    assert (ended["state"], ended["items"]["done"]) == ("succeeded", 8)
    results = place.table(ended["results"])
    first.send_signal(signal.SIGCONT)
    assert "was taken over by" in place.end(first, 1).stdout
    assert place.table(ended["results"]) == results
    assert place.json("show", "s", "--json")["state"] == "succeeded"
    assert len((place.folder / "ran").read_text().splitlines()) == 8


def _is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def lab(place, cpu=2):
    """A machine whose cluster has a storage."""
    name = place.machine(cpu)
    with open(place.folder / name, "a") as file:
        file.write("storage: ../shared\n")
    return name


def elsewhere(place):
    """The environment of another machine, which has a home of runs of its own."""
    return {"SHOAL_HOME": str(place.folder.parent / "elsewhere")}


def is_copied(place):
    return list((place.folder.parent / "shared" / "runs").glob("*/copies/1/run.db"))


def test_a_driver_that_slept_while_another_machine_took_over_deletes_no_row(place):
    fill(place.folder / "in", 400)
    file = inference(place, **slow(place))
    cluster = lab(place)
    first = place.start("run", file, "--cluster", cluster, "--json")
    place.until(lambda: is_copied(place) and done(place) >= 3, first)
    first.send_signal(signal.SIGSTOP)
    [run] = place.runs()
    heir = place.shoal(
        "resume", run, "--cluster", cluster, "--take-over", "--json", code=0, env=elsewhere(place)
    )
    ended = json.loads(heir.stdout)
    assert (ended["state"], ended["infer"]["rows"], ended["infer"]["errors"]) == ("succeeded", 399, 1)
    first.send_signal(signal.SIGCONT)
    assert "was taken over by" in place.end(first, 1).stdout
    assert len(output(place.folder / "out").rows) == 399
    assert len(output(place.folder / "out").errors) == 1


COPY = """
import sys
from shoal.files import open_storage
from shoal.store.run_copies import RunCopy
RunCopy(sys.argv[1], open_storage(sys.argv[2]), 1).write()
"""


def test_a_copy_that_a_sleeper_writes_late_is_not_what_comes_back(place):
    place.write("trial.py", "def main(x):\n    open('mended')\n    return {'y': x}\n")
    file = place.sweep("s", "{grid: {x: [0, 1, 2]}}", "function: trial:main")
    cluster = lab(place)
    place.shoal("run", file, "--cluster", cluster, code=1)
    [run] = place.runs()
    arguments = [str(place.home / "runs" / run), str(place.folder.parent / "shared")]
    sleeper = place.start_program([sys.executable, "-c", COPY, *arguments], env={"SHOAL_SUSPEND_AT": "copy"})
    place.until(lambda: _is_stopped(sleeper.pid), sleeper)
    place.write("mended", "")
    place.shoal("resume", run, "--failed", "--cluster", cluster, code=0)
    sleeper.send_signal(signal.SIGCONT)
    place.end(sleeper, 0)
    shutil.rmtree(place.home)
    place.home.mkdir()
    back = place.json("resume", run, "--cluster", cluster, "--json")
    assert (back["state"], back["items"]["done"]) == ("succeeded", 3)


@pytest.mark.root
def test_a_driver_on_another_machine_that_was_heard_of_is_replaced_only_if_somebody_insists(place, sweep):
    cluster = lab(place)
    first = place.start("run", sweep, "--cluster", cluster, "--json")
    place.until(lambda: is_copied(place), first)
    [run] = place.runs()
    place.kill(first)
    release(place)
    # With mounts of its own, it cannot tell whether what it cannot see is dead.
    command = ["unshare", "--mount", SHOAL, "resume", run, "--cluster", cluster, "--json"]
    refused = place.end(place.start_program(command, env=elsewhere(place)), 2)
    assert "heard of" in json.loads(refused.stdout)["error"]
    assert "--take-over" in json.loads(refused.stdout)["hint"]
    heir = place.end(place.start_program([*command, "--take-over"], env=elsewhere(place)), 0)
    assert json.loads(heir.stdout)["items"]["done"] == 8


def test_a_copy_that_was_brought_and_not_driven_is_brought_again(place, sweep):
    cluster = lab(place)
    first = place.start("run", sweep, "--cluster", cluster, "--json")
    place.until(lambda: is_copied(place), first)
    [run] = place.runs()
    resume = ["resume", run, "--cluster", cluster, "--json"]
    place.shoal(*resume, env=elsewhere(place), code=2)  # Its driver is alive.
    release(place)
    place.end(first, 0)
    there = json.loads(place.shoal(*resume, env=elsewhere(place), code=0).stdout)
    assert there["items"]["done"] == 8
    assert len((place.folder / "ran").read_text().splitlines()) == 8
