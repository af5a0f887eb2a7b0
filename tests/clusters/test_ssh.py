"""A cluster of plain hosts, from one file: up, looked at, used, mended and down, all from the desk of its user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.desk import Desk, left_on, ray_processes, raylet, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "next-cell"
NODES: list[dict[str, Any]] = [
    {"host": "node0", "head": True, "cpu": 1, "labels": {"tier": "cloud"}},
    {"host": "node1", "cpu": 1, "labels": {"tier": "edge"}},
    {"host": "node2", "cpu": 1, "memory": "512MiB"},
]
HOSTS = ["node0", "node1", "node2"]
LOOK = """
import os
def main(n):
    beside = sorted(os.listdir("."))
    return {"environment": " ".join(sorted(os.environ)), "files": " ".join(beside), "said": open("data/note").read(),
            "mode": os.environ.get("MODE"), "host": os.uname().nodename}
"""


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Testbed(["desk", *HOSTS]) as bed:
        yield Desk(bed)


@pytest.fixture
def lab(desk: Desk) -> str:
    """The cluster file; all of its nodes are up, whatever the test before did."""
    lab = desk.cluster(NODES)
    desk.shoal("cluster", "up", lab)
    return lab


def test_every_node_is_up_and_says_what_it_has(desk: Desk, lab: str) -> None:
    nodes = {node["host"]: node for node in desk.json("cluster", "status", lab)}
    assert list(nodes) == HOSTS
    assert {node["state"] for node in nodes.values()} == {"up"}
    assert [node["head"] for node in nodes.values()] == [True, False, False]
    assert nodes["node1"]["labels"] == {"tier": "edge"}
    assert nodes["node2"]["memory_bytes"] == 512 << 20
    for node in nodes.values():
        assert node["cpu"] == 1
        assert node["speed"] > 0
        assert node["requested"] < node["ready"]
    table = desk.shoal("cluster", "status", lab).stdout.splitlines()
    assert table[0].split()[:4] == ["host", "state", "cpu", "memory"]
    assert {"speed", "labels", "note"} <= set(table[0].split())
    assert [line.split()[:2] for line in table if line.startswith("node")] == [[host, "up"] for host in HOSTS]


def test_up_twice_changes_nothing(desk: Desk, lab: str) -> None:
    before = {host: ray_processes(desk.bed[host]) for host in HOSTS}
    times = [node["ready"] for node in desk.json("cluster", "status", lab)]
    assert all(before.values())
    said = desk.shoal("cluster", "up", lab)
    assert "starting" not in said.stderr
    assert {host: ray_processes(desk.bed[host]) for host in HOSTS} == before
    assert [node["ready"] for node in desk.json("cluster", "status", lab)] == times


def test_a_node_whose_ray_was_killed_is_lost_and_comes_back_with_up(desk: Desk, lab: str) -> None:
    others = {host: ray_processes(desk.bed[host]) for host in ("node0", "node2")}
    died = raylet(desk.bed["node1"])
    desk.bed["node1"].run(["kill", "-9", str(died)])
    until(lambda: desk.states(lab) == {"node0": "up", "node1": "lost", "node2": "up"}, "node1 being lost")
    status = {node["host"]: node["why"] for node in desk.json("cluster", "status", lab)}
    assert "not running" in status["node1"]
    desk.shoal("cluster", "up", lab)
    assert set(desk.states(lab).values()) == {"up"}
    assert raylet(desk.bed["node1"]) != died
    assert {host: ray_processes(desk.bed[host]) for host in others} == others
    rows = desk.finish(desk.sleeper("after", 30, 50), "--cluster", lab)
    assert {row["node"] for row in rows} == set(HOSTS), "it works again"


def test_the_example_sweep_gives_what_it_gives_on_one_machine(desk: Desk, lab: str, tmp_path: Path) -> None:
    desk.host.put(EXAMPLE, f"{desk.folder}/next-cell")
    there = desk.finish("next-cell/sweep.yaml", "--cluster", lab, "--limit", "4")
    environment = {**os.environ, "SHOAL_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "run", str(EXAMPLE / "sweep.yaml"), "--limit", "4", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    run = json.loads(done.stdout)["run"]
    command = [sys.executable, "-m", "shoal", "results", run, "--format", "json"]
    here = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    assert sorted_by_item(there) == sorted_by_item(here)
    assert {row["state"] for row in there} == {"done"}
    assert {row["node"] for row in there} <= set(HOSTS)


def sorted_by_item(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what depends on where and when it ran."""
    own = ("node", "started", "seconds", "attempt")
    return sorted(
        ({name: value for name, value in row.items() if name not in own} for row in rows),
        key=lambda row: str(row["item"]),
    )


def test_a_trial_gets_the_folder_and_of_the_environment_only_what_the_workload_says(
    desk: Desk, lab: str
) -> None:
    file = desk.sweep("look", LOOK, {"n": [1, 2, 3]}, env={"MODE": "fast"})
    desk.write("look/data/note", "hello")
    desk.write("look/.git/config", "not this")
    desk.write("look/junk.bin", "nor this")
    desk.write("look/.shoalignore", "*.bin\n")
    done = desk.shoal("run", file, "--cluster", lab, "--json", env={"SECRET_OF_DESK": "1"})
    for row in desk.rows(json.loads(done.stdout)["run"]):
        names = str(row["environment"]).split()
        assert row["mode"] == "fast"
        assert row["said"] == "hello"
        assert row["host"] == row["node"]
        assert set(str(row["files"]).split()) - {"__pycache__"} == {
            ".shoalignore",
            "data",
            "look.py",
            "look.yaml",
        }
        assert "SECRET_OF_DESK" not in names
        assert not [name for name in names if name.startswith(("RAY_", "SSH_"))], "Ray's token is in them"


def test_a_host_that_is_no_longer_in_the_file_is_ended_by_the_next_up(desk: Desk, lab: str) -> None:
    desk.cluster(NODES[:2])
    desk.shoal("cluster", "up", lab)
    assert desk.states(lab) == {"node0": "up", "node1": "up"}
    assert left_on(desk.bed, "node2") == []
