"""Shoal on a cluster that other Ray programs use, too: neither takes what the other holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import CannotPlace
from shoal.model import Event, Granted, ItemEnded, Need, Node, Place, Refused
from shoal.testing.contract_base import item, scripted
from shoal.testing.events import collect, ended, heard, of, quiet

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

PATIENCE_S = 30.0
DRIVER = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
from shoal.engine.ray.engine import RayEngine
from shoal.model import Need
from shoal.testing.contract_base import scripted
engine = RayEngine(sys.argv[2])
for place in engine.reserve([Need(gpu=1), Need()], None).places:
    engine.spawn(scripted(), place)
while "WorkerReady" not in str(engine.wait(1)):
    pass
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(ray_cluster: Callable[..., Any]) -> Any:
    made = ray_cluster(
        one={"num_cpus": 2, "num_gpus": 2, "labels": {"shoal.speed": "2.5"}},
        two={"num_cpus": 1, "labels": {"shoal.speed": "fast"}},
        three={"num_cpus": 1},
    )
    made.add("watcher", num_cpus=8, labels={"shoal.role": "driver"})
    return made


@pytest.fixture
def engine(cluster: Any, tmp_path: Path) -> Iterator[Any]:
    from shoal.engine.ray.engine import RayEngine

    cluster.wait_until_free()
    made = RayEngine(str(tmp_path / "run"))
    yield made
    made.close()


@pytest.fixture
def foreign(cluster: Any) -> Iterator[Callable[..., Any]]:
    """Starts an actor of another program on a node of that name; what it has is free after the test."""
    ids = {node["Labels"].get("shoal.host"): node["NodeID"] for node in ray.nodes() if node["Alive"]}
    started: list[Any] = []

    class Busy:
        def devices(self) -> list[str]:
            return list(ray.get_runtime_context().get_accelerator_ids()["GPU"])

    def start(host: str, **resources: float) -> Any:
        actor = ray.remote(Busy).options(label_selector={"ray.io/node-id": ids[host]}, **resources).remote()
        started.append(actor)
        ray.get(actor.devices.remote())
        return actor

    yield start
    for actor in started:
        ray.kill(actor)


def granted(engine: Any, *needs: Need) -> tuple[Place, ...]:
    """Places for the needs, at once or when Ray shows that there is room."""
    reservation = engine.reserve(needs, PATIENCE_S)
    if reservation.places:
        return tuple(reservation.places)
    [event] = of(Granted, collect(engine, heard(Granted), PATIENCE_S))
    return event.places


def value(events: list[Event]) -> str:
    return str(of(ItemEnded, events)[-1].outcome.metrics["value"])


def test_nodes_have_their_measured_speed_and_those_for_drivers_are_not_offered(engine: Any) -> None:
    assert {node.host: node.speed for node in engine.nodes()} == {"one": 2.5, "two": 1.0, "three": 1.0}


def test_a_cluster_that_nobody_adds_nodes_to_is_asked_for_nothing(engine: Any) -> None:
    assert not engine.wish([Need()])


def test_ray_counts_what_a_place_holds_from_the_grant_until_it_is_given_back(
    cluster: Any, engine: Any
) -> None:
    before = cluster.free("CPU")
    [place] = granted(engine, Need(cpu=2, gpu=1, memory_bytes=1 << 20))
    cluster.until(lambda: cluster.free("CPU") == before - 2)
    assert cluster.free("GPU") == 1
    engine.release(place)
    cluster.until(lambda: cluster.free("CPU") == before)
    assert cluster.free("GPU") == 2


def test_what_another_program_holds_is_waited_for_and_refused_at_the_deadline(
    cluster: Any, engine: Any, foreign: Callable[..., Any]
) -> None:
    busy = foreign("two", num_cpus=1)
    cluster.until(lambda: cluster.free("CPU") == 11)
    refused = engine.reserve([Need(node="two")], 0.5)
    assert refused.places == ()
    assert [event.reservation for event in of(Refused, collect(engine, heard(Refused), PATIENCE_S))] == [
        refused.id
    ]
    pending = engine.reserve([Need(node="two")], None)
    assert quiet(engine, 0.5) == []
    ray.kill(busy)
    [event] = of(Granted, collect(engine, heard(Granted), PATIENCE_S))
    assert event.reservation == pending.id
    engine.submit(engine.spawn(scripted(), event.places[0]), [item(1)])
    collect(engine, ended(1), PATIENCE_S)


def test_another_program_waits_for_what_shoal_holds(
    cluster: Any, engine: Any, foreign: Callable[..., Any]
) -> None:
    [place] = granted(engine, Need(node="three"))
    function = ray.remote(lambda: 1).options(num_cpus=1, label_selector={"shoal.host": "three"})
    task = function.remote()
    assert ray.wait([task], timeout=1.0)[0] == []
    engine.release(place)
    assert ray.get(task, timeout=PATIENCE_S) == 1


def test_a_gpu_is_never_given_to_a_worker_and_to_another_program(
    cluster: Any, engine: Any, foreign: Callable[..., Any]
) -> None:
    theirs = ray.get(foreign("one", num_cpus=0, num_gpus=1).devices.remote())
    cluster.until(lambda: cluster.free("GPU") == 1)
    [place] = granted(engine, Need(gpu=1))
    worker = engine.spawn(scripted(), place)
    engine.submit(worker, [item(1, "env", name="CUDA_VISIBLE_DEVICES")])
    ours = value(collect(engine, ended(1), PATIENCE_S))
    assert {ours, *theirs} == {"0", "1"}
    cluster.until(lambda: cluster.free("GPU") == 0)
    assert engine.reserve([Need(gpu=1)], 0.3).places == ()
    assert [type(event) for event in collect(engine, heard(Refused), PATIENCE_S)] == [Refused]


def test_a_gang_gets_a_place_on_each_of_three_nodes_or_none(
    cluster: Any, engine: Any, foreign: Callable[..., Any]
) -> None:
    needs = [Need(node=host) for host in ("one", "two", "three")]
    busy = foreign("three", num_cpus=1)
    cluster.until(lambda: cluster.free("CPU") == 11)
    pending = engine.reserve(needs, None)
    assert pending.places == ()
    assert quiet(engine, 0.5) == []
    assert cluster.free("CPU") == 11, "nothing is held while not all can be"
    ray.kill(busy)
    [event] = of(Granted, collect(engine, heard(Granted), PATIENCE_S))
    assert [place.host for place in event.places] == ["one", "two", "three"]
    cluster.until(lambda: cluster.free("CPU") == 9)


def test_groups_that_ray_cannot_make_leave_nothing_behind(
    cluster: Any, engine: Any, foreign: Callable[..., Any]
) -> None:
    """As when another program takes the room between the look and the grant."""
    from shoal.engine.ray.groups import _make

    ids = {host: node_id for host, (node_id, _) in engine._link.nodes.items()}
    foreign("three", num_cpus=1)
    assert _make([{"CPU": 1}, {"CPU": 1}], [ids["two"], ids["three"]]) == []
    cluster.until(lambda: cluster.free("CPU") == 11)


def test_a_driver_that_was_killed_holds_nothing(cluster: Any, tmp_path: Path) -> None:
    cluster.wait_until_free()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"holds\n"
        cluster.until(lambda: (cluster.free("CPU"), cluster.free("GPU")) == (10, 1))
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
    cluster.wait_until_free()


def test_an_arbiter_of_another_protocol_that_is_in_use_is_said(engine: Any) -> None:
    from shoal.engine.ray.arbiter import ensure_understood

    class Older:
        def __init__(self) -> None:
            self.hosts: list[str] = []

        def busy(self, *hosts: str) -> list[str]:
            self.hosts = list(hosts) or self.hosts
            return self.hosts

    granted(engine, Need())
    older = ray.remote(Older).options(name="shoal-arbiter", namespace="shoal", num_cpus=0).remote()
    ray.get(older.busy.remote())
    ensure_understood()
    ray.get(older.busy.remote("one"))
    try:
        with pytest.raises(CannotPlace, match="shoal-arbiter counts one as busy") as error:
            ensure_understood()
        assert error.value.exit_code == 2
    finally:
        ray.kill(older)


def test_room_is_what_shoal_holds_and_what_ray_has_free() -> None:
    from shoal.engine.ray.arbiter import left_for_us
    from shoal.engine.ray.nodes import Free

    node = Node("one", cpu=8, memory_bytes=800, gpu=3)
    held = [Place(1, "one", Need(cpu=2, gpu=1, memory_bytes=100), ("1",)), Place(2, "two", Need(cpu=1))]
    [left] = left_for_us([node], held, {"one": Free(3.0, 1.0, 200)})
    assert (left.cpu, left.memory_bytes, left.devices) == (5, 300, ("0", "1"))
    [gone] = left_for_us([node], (), {})
    assert (gone.cpu, gone.gpu) == (0, 0)


def test_only_use_that_lasts_makes_shares_smaller() -> None:
    from shoal.engine.ray.arbiter import Lasting

    node = Node("one", cpu=8, memory_bytes=0)
    lasting = Lasting()

    def left(now: float, seen: float) -> float:
        return lasting.left([node], [node._replace(cpu=seen)], now)[0].cpu

    assert left(0.0, 8) == 8
    assert left(0.5, 4) == 8, "it has only just begun"
    assert left(1.4, 3) == 8
    assert left(1.6, 3) == 4, "the least that was used for a second"
    assert left(2.7, 3) == 3
    assert left(2.8, 8) == 8, "and is free at once"
