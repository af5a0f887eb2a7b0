"""What can be wrong with hosts, keys, files and requests: each is said in words, with what to do, and nothing stays."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.desk import Desk, left_on, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]

NODES: list[dict[str, Any]] = [
    {"host": "node0", "head": True, "cpu": 2, "memory": "2GiB", "labels": {"tier": "cloud"}},
    {"host": "node1", "cpu": 2, "memory": "256MiB", "labels": {"tier": "edge"}},
]
CONFIG = """
Host guarded
    HostName node0
    IdentityFile ~/.ssh/stranger_ed25519
    IdentitiesOnly yes
    HostKeyAlias node0
"""
ANOTHER_RAY = """#!/bin/sh
PYTHONPATH=$HOME/another exec python "$@"
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(["desk", "node0", "node1"]) as bed:
        bed["desk"].write(".ssh/config", CONFIG, mode=0o600)
        bed["node0"].write("bin/another-ray", ANOTHER_RAY, mode=0o755)
        bed["node0"].write(
            "another/ray-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: ray\nVersion: 1.2.3\n"
        )
        yield bed


@pytest.fixture
def desk(bed: Testbed) -> Iterator[Desk]:
    yield Desk(bed)
    bed.reset()


@pytest.fixture
def lab(desk: Desk) -> str:
    """The cluster file; its nodes are up."""
    lab = desk.cluster(NODES)
    desk.shoal("cluster", "up", lab)
    return lab


def refused(desk: Desk, *arguments: str) -> str:
    """Exit code 2, one error, no run: what was said."""
    before = desk.runs()
    done = desk.shoal(*arguments, code=2)
    assert done.stdout == ""
    assert desk.runs() == before, "a run was made"
    return str(done.stderr)


@pytest.mark.parametrize(
    ("host", "python", "said"),
    [
        ("nobody", None, "has a name that nobody knows"),
        ("guarded", None, "does not accept any of your SSH keys"),
        ("node0", "/nowhere/python", "has no Python"),
        ("node0", f"{sys.base_prefix}/bin/python3", "has no Shoal"),
        ("node0", "/home/node0/bin/another-ray", "ray 1.2.3 instead of"),
    ],
    ids=["unknown", "wrong-key", "no-python", "no-shoal", "another-ray"],
)
def test_a_head_that_cannot_be_had_is_an_error_with_its_reason(
    desk: Desk, host: str, python: str | None, said: str
) -> None:
    more = {} if python is None else {"python": python}
    alone = desk.cluster([{"host": host, "cpu": 1, "memory": "1GiB"}], name="alone", **more)
    file = desk.sleeper("short", 3, 10)
    for arguments in (
        ("cluster", "up", alone),
        ("run", file, "--cluster", alone),
        ("run", file, "--cluster", alone, "--detach"),
    ):
        error = refused(desk, *arguments)
        assert f"The head {host} did not come up" in error
        assert said in error
    assert not [line for line in left_on(desk.bed, "node0") if "/tmp/" in line and ".lock" not in line]
    desk.shoal("cluster", "down", alone, code=None)


def test_a_head_that_does_not_answer_is_an_error_and_leaves_no_run(desk: Desk) -> None:
    away = desk.cluster([{"host": "node0"}, {"host": "node1"}], name="away")
    file = desk.sleeper("short", 3, 10)
    desk.bed["node0"].cut()
    error = refused(desk, "run", file, "--cluster", away)
    assert "node0 does not answer" in error
    assert "Traceback" not in error
    assert left_on(desk.bed, "node1") == [], "nothing was started without a head"


def test_half_a_cluster_works_and_says_what_is_missing(desk: Desk) -> None:
    half = desk.cluster(NODES, name="half")
    desk.bed["node1"].cut()
    try:
        up = desk.shoal("cluster", "up", half, code=1)
        assert "node1 does not answer" in up.stderr
        assert [line.split()[:2] for line in up.stdout.splitlines()[-2:]] == [
            ["node0", "up"],
            ["node1", "lost"],
        ]
        rows = desk.finish(desk.sleeper("short", 20, 50), "--cluster", half)
        assert {row["state"] for row in rows} == {"done"}
        assert {row["node"] for row in rows} == {"node0"}
        desk.bed["node1"].mend()
        desk.shoal("cluster", "up", half)
        assert set(desk.states(half).values()) == {"up"}
    finally:
        desk.bed["node1"].mend()
        desk.shoal("cluster", "down", half)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ({"labels": {"tier": "moon"}}, "label tier is cloud, not moon"),
        ({"node": "node9"}, "node0: is not node9"),
    ],
    ids=["label", "node"],
)
def test_a_place_that_nothing_has_is_an_error_at_once(
    desk: Desk, lab: str, placement: Any, said: str
) -> None:
    file = desk.sleeper("nowhere", 3, 10, placement=placement)
    for command in ("run", "check", "plan"):
        assert said in refused(desk, command, file, "--cluster", lab)
    assert said in refused(desk, "run", file, "--cluster", lab, "--detach")


def test_a_node_with_too_little_memory_is_left_out_and_the_plan_says_so(desk: Desk, lab: str) -> None:
    file = desk.sleeper("large", 12, 50, resources={"cpu": 1, "memory": "512MiB"})
    rows = desk.finish(file, "--cluster", lab)
    assert {row["node"] for row in rows} == {"node0"}
    plan = desk.json("plan", file, "--cluster", lab)
    [left_out] = [each for each in plan["decisions"] if each["name"] == "left out"]
    assert left_out["choice"] == "node1"
    assert left_out["why"] == "node1: has 256 MiB memory, needs 512"
    assert {each["node"] for each in plan["placements"]} == {"node0"}


def test_a_folder_of_5_gb_is_an_error_that_names_the_largest_files(desk: Desk, lab: str) -> None:
    file = desk.sleeper("heavy", 3, 10)
    desk.host.run(["truncate", "-s", "4G", f"{desk.folder}/heavy/images.bin"])
    desk.host.run(["truncate", "-s", "1G", f"{desk.folder}/heavy/model.bin"])
    for arguments in (["run", file], ["check", file], ["run", file, "--detach"]):
        error = refused(desk, *arguments, "--cluster", lab)
        assert "images.bin (4.0 GiB), model.bin (1.0 GiB)" in error
        assert ".shoalignore" in error
    desk.write("heavy/.shoalignore", "*.bin\n")
    assert len(desk.finish(file, "--cluster", lab)) == 3


def test_down_during_a_run_ends_it_with_a_reason_and_it_can_be_resumed(desk: Desk, lab: str) -> None:
    process = desk.start("run", desk.sleeper("cut", 160, 300), "--cluster", lab, "--json")
    until(lambda: desk.done("cut") > 10, "a run that is under way")
    desk.shoal("cluster", "down", lab)
    began = time.monotonic()
    ended = desk.end(process, 1)
    assert time.monotonic() - began < 60
    assert "cluster" in ended.stdout + ended.stderr
    assert 10 < desk.done("cut") < 160
    desk.shoal("resume", "last")
    rows = desk.rows("last")
    assert sorted(row["n"] for row in rows) == list(range(160))
    assert {row["state"] for row in rows} == {"done"}
