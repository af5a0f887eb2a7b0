"""Hosts that die, join, are cut off and come back in the middle of a run: nothing is lost, nothing is done twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from clusters.desk import Desk, check_all_done_once, ended_on, raylet, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]

HOSTS = ["node0", "node1", "node2"]
ELSEWHERE_S = 15.0


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(["desk", *HOSTS, "node3"]) as bed:
        yield bed


@pytest.fixture
def desk(bed: Testbed) -> Iterator[Desk]:
    for host in bed:
        host.run(["rm", "-f", f"{host.work}/ended"])
    yield Desk(bed)
    bed.reset()


@pytest.fixture
def lab(desk: Desk) -> str:
    lab = desk.cluster(nodes(HOSTS))
    desk.shoal("cluster", "up", lab)
    return lab


def nodes(hosts: list[str]) -> list[dict[str, Any]]:
    return [{"host": host, "cpu": 2} for host in hosts]


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_one_of_three_hosts_dies_another_joins_and_takes_its_share(desk: Desk, lab: str) -> None:
    bed, count = desk.bed, 2000
    process = desk.start("run", desk.trials("mixed", count, 100), "--cluster", lab, "--json")
    until(lambda: desk.done("mixed") > 200, "a run that is under way")
    bed["node2"].kill()
    desk.cluster(nodes([*HOSTS, "node3"]))
    up = desk.shoal("cluster", "up", lab, code=1)
    assert "node2 " in up.stderr
    assert desk.states(lab) == {"node0": "up", "node1": "up", "node2": "lost", "node3": "up"}
    desk.end(process)
    rows = desk.rows(desk.run_of("mixed"))
    check_all_done_once(rows, count)
    bed["node2"].boot()
    living = ended_on(bed, "node0") + ended_on(bed, "node1") + ended_on(bed, "node3")
    assert not [n for n, times in living.items() if times > 1], "done twice on hosts that were never lost"
    joined = min(seconds(row["started"]) for row in rows if row["node"] == "node3")
    after = Counter(row["node"] for row in rows if seconds(row["started"]) >= joined)
    assert after.total() > 60, "it joined too late to say anything"
    assert after["node3"] >= after.total() / 3 / 2
    assert after["node2"] == 0
    desk.cluster(nodes(HOSTS))  # node3 goes with the next `up`


def test_what_ran_on_a_node_whose_ray_is_killed_goes_elsewhere_within_seconds(desk: Desk, lab: str) -> None:
    process = desk.start("run", desk.trials("killed", 4, 20_000), "--cluster", lab, "--json")
    until(lambda: len(running(desk, "killed")) == 4, "trials that run, with room for two more")
    there = [item for item, node in running(desk, "killed").items() if node == "node1"]
    assert there
    desk.bed["node1"].run(["kill", "-9", str(raylet(desk.bed["node1"]))])
    killed = time.time()
    desk.end(process)
    rows = desk.rows(desk.run_of("killed"))
    check_all_done_once(rows, 4)
    moved = [row for row in rows if row["item"] in there]
    assert {row["node"] for row in moved} <= {"node0", "node2"}
    assert max(seconds(row["started"]) for row in moved) - killed < ELSEWHERE_S


def running(desk: Desk, name: str) -> dict[str, str]:
    """The items of the run that run now, and where."""
    run = desk.run_of(name)
    items = desk.json("show", run)["items"] if run else []
    return {each["item"]: each["node"] for each in items if each["state"] == "running"}


@pytest.mark.parametrize(("name", "cut_s", "count", "ms"), [("five", 5, 300, 200), ("sixty", 60, 350, 1000)])
def test_a_node_that_was_cut_off_and_comes_back_doubles_nothing(
    desk: Desk, lab: str, name: str, cut_s: int, count: int, ms: int
) -> None:
    process = desk.start("run", desk.trials(name, count, ms), "--cluster", lab, "--json")
    until(lambda: desk.done(name) > 20, "a run that is under way")
    desk.bed["node1"].cut()
    time.sleep(cut_s)  # This is what happens to it, not a wait for something.
    desk.bed["node1"].mend()
    assert process.poll() is None, "the run was over too early to say anything"
    before = desk.done(name)
    until(lambda: desk.done(name) > before, "a run that goes on")
    desk.end(process)
    rows = desk.rows(desk.run_of(name))
    check_all_done_once(rows, count)
    csv = desk.read(f".shoal/runs/{desk.run_of(name)}/results.csv")
    assert len(csv.splitlines()) == count + 1
    never_cut = ended_on(desk.bed, "node0") + ended_on(desk.bed, "node2")
    assert not [n for n, times in never_cut.items() if times > 1]
    ran = never_cut + ended_on(desk.bed, "node1")
    assert set(ran) == set(range(count))
    if cut_s < 9:
        assert ran.total() == count, "a short cut is no loss: nothing was run again"
