"""A cluster that grows while work is worth it, and shrinks when it stands idle; every change with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.desk import Desk, until
from clusters.growth import HOSTS, growing_cluster, run_growing
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]

TRIALS, TRIAL_S = 240, 0.5
SLACK = 1.5
"""Of a test on a machine that does other things, too. How close it comes is for bench/scaling.py to say."""


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Testbed(["desk", *HOSTS]) as bed:
        yield Desk(bed)


def test_work_begins_on_one_host_spreads_to_three_and_idle_hosts_go(desk: Desk) -> None:
    lab = growing_cluster(desk)
    grown = run_growing(desk, lab, TRIALS, TRIAL_S)
    assert len(grown.rows) == TRIALS
    assert {row["state"] for row in grown.rows} == {"done"}
    assert {row["node"] for row in grown.rows} == set(HOSTS)
    check_changes(grown.changes)
    assert grown.began < min(grown.ready), "the first item started before the second host was ready"
    print(f"took {grown.took_s / grown.best_s:.3f} of the best possible")
    assert grown.took_s < SLACK * grown.best_s
    until(
        lambda: desk.states(lab) == {"node0": "up", "node1": "down", "node2": "down"}, "idle hosts going", 60
    )
    reasons = {node["host"]: node["why"] for node in desk.json("cluster", "status", lab)}
    assert reasons["node0"] == ""
    for host in HOSTS[1:]:
        assert re.fullmatch(r"let go: it stood idle for 1\d s, and [12] stay", reasons[host]), reasons
    for host in HOSTS[1:]:
        until(lambda host=host: not processes_of_ray(desk, host), f"nothing of Ray running on {host}", 30)
    assert desk.states(lab)["node0"] == "up", "the head stays"
    desk.shoal("cluster", "down", lab)


def processes_of_ray(desk: Desk, host: str) -> list[str]:
    return [line for _, line in desk.bed[host].processes() if "/ray/" in line or "ray::" in line]


def check_changes(changes: list[dict[str, Any]]) -> None:
    assert {(each["host"], each["change"]) for each in changes} == {
        (host, change) for host in HOSTS[1:] for change in ("requested", "ready")
    }
    for each in changes:
        assert each["why"]
        if each["change"] == "requested":
            assert "it saves" in each["why"]


def test_work_that_is_not_worth_a_start_stays_on_one_host(desk: Desk) -> None:
    lab = growing_cluster(desk, "small")
    file = desk.sleeper("brief", 10, 100)
    done = desk.json("run", file, "--cluster", lab)
    assert {row["node"] for row in desk.rows(done["run"])} == {"node0"}
    assert desk.json("show", done["run"], "--why")["scaling"] == []
    for _ in range(5):
        desk.shoal("run", file, "--cluster", lab)  # However many drivers came before.
    assert desk.states(lab) == {"node0": "up", "node1": "down", "node2": "down"}
    desk.shoal("cluster", "down", lab)
