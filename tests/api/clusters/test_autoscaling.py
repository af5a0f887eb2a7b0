"""Hosts on their way: each counts until it is there, or until nobody should wait for it any longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal import spec
from shoal.api import workloads
from shoal.api.clusters.autoscaling import (
    COME_S,
    REPEAT_S,
    WAIT_S,
    Coming,
    Growing,
    HostGrowth,
    RayGrowth,
    Waiting,
    _left_s,
    for_a_place,
)
from shoal.api.machines import Machines
from shoal.api.runs import new_session
from shoal.api.views.lookup import open_run
from shoal.cluster.agent_calls import ThisMachine
from shoal.cluster.hosted import HostedProvider
from shoal.cluster.local import LocalDoor
from shoal.cluster.this_machine import Here
from shoal.errors import ClusterError
from shoal.model import Asks, Need, Node
from shoal.planner.node_growth import Spare
from shoal.shape.base import Progress


def test_a_host_is_waited_for_until_it_is_there() -> None:
    coming = Coming()
    coming.ask("a")
    coming.ask("b")
    assert coming.look(set(), 0.0) == {"a", "b"}
    assert coming.look({"a"}, 10 * COME_S) == {"b"}
    coming.drop("b")
    assert coming.look({"a"}, 10 * COME_S) == set()


def test_a_host_that_was_started_and_does_not_show_is_not_waited_for_for_ever() -> None:
    coming = Coming()
    coming.ask("a")
    coming.look(set(), 0.0)
    coming.started("a")
    assert coming.look(set(), 1000.0) == {"a"}
    assert coming.look(set(), 1000.0 + COME_S) == {"a"}
    assert coming.look(set(), 1001.0 + COME_S) == set()
    coming.ask("a")
    assert coming.look(set(), 1002.0 + COME_S) == {"a"}, "it may be asked for again"


def test_what_was_found_so_far_counts_while_more_is_being_found() -> None:
    progress = Progress(10.0, {}, 4, [], 4, 1.0, None, 3.0, least_s=600.0)
    assert _left_s(progress) == 600.0
    assert _left_s(progress._replace(remaining_s=50.0)) == 50.0


class NobodyAnswers(ThisMachine):
    def ask(self, host: str, request: Mapping[str, Any]) -> Any:
        raise ClusterError(f"{host} does not answer.")


class Hosts(HostedProvider):
    def door(self) -> LocalDoor:
        return LocalDoor()


class Lab(Machines):
    """This machine, beside a host that can be started and never comes up."""

    def growing(self, asks: Asks, alive: Callable[[], Sequence[Node]]) -> Growing:
        assert self.cluster is not None
        assert self.file is not None
        provider = Hosts(self.cluster, self.file, NobodyAnswers())
        return HostGrowth(provider, asks, alive, self._tell)


def test_nodes_that_are_asked_for_are_recorded_while_the_items_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "trial.py").write_text(
        "import os, time\ndef main(n):\n    while not os.path.exists('go'):\n        time.sleep(0.01)\n"
    )
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\ntrials: {grid: {n: [1]}, repeat: 400}\nrun: {function: 'trial:main'}\n"
    )
    file = tmp_path / "lab.yaml"
    file.write_text(
        "kind: cluster\nname: lab\nprovider: ssh\nnodes: [{host: gone, cpu: 1, memory: 1GiB}]\n"
        "scale: {min: 1, max: 2}\n"
    )
    nodes = [Node("here", 2, 4 << 30)]
    machines = Lab(nodes, "machine", spec.load(file, kind="cluster"), str(file))
    session = new_session(workloads.from_file("sweep.yaml"), machines, Here())
    seen: list[tuple[str, str]] = []

    def watch() -> None:
        until = time.monotonic() + 20
        while len(seen) < 2 and time.monotonic() < until:
            time.sleep(0.02)
            with open_run("last") as store:
                seen[:] = [(event.subject, event.what) for event in store.events()]
        (tmp_path / "go").touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert session.drive().state == "succeeded"
    watcher.join()
    assert seen == [("node gone", "requested"), ("node gone", "failed")]
    with open_run("last") as store:
        assert "gone does not answer" in store.events()[1].why


def test_a_run_that_has_no_worker_for_a_while_is_a_reason_to_start_one_node() -> None:
    waiting = Waiting()
    bare = Progress(10.0, {}, 4, [], 0, 0.0, None, None)
    assert not waiting.look(bare)
    assert waiting.look(bare._replace(now=10.0 + WAIT_S))
    assert not waiting.look(bare._replace(now=20.0, workers=1)), "it has one"
    assert not waiting.look(bare._replace(now=30.0)), "it has been without one only since now"
    assert not waiting.look(bare._replace(now=40.0, waiting=0)), "it has no work"
    spares = [Spare("a", 4, 60.0), Spare("b", 4, 60.0)]
    assert [growth.host for growth in for_a_place(spares, 2)] == ["a"]
    assert for_a_place(spares, 0) == for_a_place(spares, -1) == for_a_place([], 2) == []


class Autoscaler:
    """Nodes of two CPUs that come when they are asked for; and who asks."""

    def __init__(self) -> None:
        self.nodes = [Node("first", 2, 1 << 30)]
        self.wishes: list[int] = []
        self.is_there = True
        self.growing = RayGrowth(self.wish, ((Need(),),), lambda: self.nodes, lambda line: None)
        self.now = 0.0

    def wish(self, needs: Sequence[Need]) -> bool:
        self.wishes.append(len(needs))
        return self.is_there

    def look(self, workers: int, left_s: float, useful: int | None) -> list[tuple[float, str, str]]:
        """What is recorded a second later of a run that has so many workers, and so long to go with them."""
        self.now += 1.0
        self.growing.moment(Progress(self.now, {}, 9, [], workers, 1.0, left_s, 1.0, useful=useful))
        return [(event.at, event.subject, event.what) for event in self.growing.changes()]


def test_places_are_asked_for_as_long_as_they_pay_and_each_node_is_recorded_when_it_comes() -> None:
    scaled = Autoscaler()
    assert scaled.look(2, 5.0, 100) == [], "it is over before a node could come"
    assert scaled.look(2, 90.0, 100) == [(2.0, "cluster", "requested")]
    assert scaled.wishes == [4], "two nodes pay"
    assert scaled.look(2, 89.0, 100) == []
    assert scaled.wishes == [4], "it stands"
    scaled.now = 11.0
    scaled.nodes.append(Node("second", 2, 1 << 30))
    assert scaled.look(2, 80.0, 100) == [(2.0, "node second", "requested"), (12.0, "node second", "ready")]
    assert scaled.wishes == [4, 2]
    scaled.now += REPEAT_S
    assert scaled.look(4, 25.0, 100) == []
    assert scaled.wishes == [4, 2, 2], "it is said again now and then"
    assert scaled.look(4, 2.0, 8) == [(19.0, "cluster", "withdrawn")]
    assert scaled.wishes == [4, 2, 2, 0]


def test_no_more_places_are_asked_for_than_there_is_work_for() -> None:
    scaled = Autoscaler()
    scaled.look(2, 600.0, 3)
    assert scaled.wishes == [1]
    scaled = Autoscaler()
    scaled.look(2, 90.0, None)
    assert scaled.wishes == [4], "nobody knows for how many there is work"
    assert Autoscaler().look(2, 600.0, 2) == []


def test_nothing_is_recorded_where_nobody_could_add_a_node() -> None:
    scaled = Autoscaler()
    scaled.is_there = False
    assert scaled.look(2, 60.0, 100) == scaled.look(2, 60.0, 100) == []
    scaled.nodes.append(Node("somebody's", 2, 1 << 30))
    assert scaled.look(2, 60.0, 100) == []
