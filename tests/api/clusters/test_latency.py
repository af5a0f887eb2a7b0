"""How far the nodes of a cluster file are from its locations."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.api.clusters.latency import LatencyRow, latency
from shoal.cluster.this_machine import Here
from shoal.errors import SpecError

LAB = """
kind: cluster
name: lab
provider: {provider}
nodes:
  - {{host: {hosts[0]}, labels: {{location: lab}}}}
  - {{host: {hosts[1]}, labels: {{location: home}}}}
locations:
  here: {{probe: "127.0.0.1:{port}"}}
  home: {{lab: 20ms}}
  mars: {{venus: 3s}}
"""


class Clock(Here):
    """Here, at a given time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def now(self) -> float:
        return self.now_s


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lab(folder: Path, port: int, provider: str = "local", hosts: tuple[str, str] = ("node0", "node1")) -> str:
    file = folder / "lab.yaml"
    file.write_text(LAB.format(provider=provider, hosts=hosts, port=port))
    return str(file)


def by_pair(rows: list[LatencyRow]) -> dict[tuple[str, str], LatencyRow]:
    return {(row.node, row.location): row for row in rows}


@pytest.mark.parametrize("engine", [pytest.param("ray", marks=pytest.mark.ray), "embedded"])
def test_every_node_has_a_row_for_every_location(
    tmp_path: Path, port: int, clock: Clock, engine: str
) -> None:
    began = time.monotonic()
    rows = by_pair(latency(lab(tmp_path, port, f"local\nengine: {engine}"), here=clock))
    each_took_s = (time.monotonic() - began) / 5
    assert len(rows) == 6
    for host in ("node0", "node1"):
        row = rows[host, "here"]
        assert (row.source, row.samples, row.age_s) == ("measured", 5, 0.0)
        assert row.min_s is not None
        assert 0 < row.min_s < each_took_s
    assert rows["node0", "home"][2:] == (0.02, None, None, 0, None, "known", False, "")
    assert rows["node1", "home"][2:] == (0.0, None, None, 0, None, "label", True, "")
    assert rows["node0", "mars"].why == "location mars has no probe, and no known round trip to lab"


def test_what_was_measured_is_kept_for_an_hour_and_grows_old(tmp_path: Path, port: int, clock: Clock) -> None:
    file = lab(tmp_path, port, "local\nengine: embedded")
    first = by_pair(latency(file, here=clock))["node0", "here"]
    clock.now_s += 600
    second = by_pair(latency(file, here=clock))["node0", "here"]
    assert second == first._replace(age_s=600.0, nearest=second.nearest)
    assert by_pair(latency(file, refresh=True, here=clock))["node0", "here"].age_s == 0.0
    clock.now_s += 3601
    assert by_pair(latency(file, here=clock))["node0", "here"].age_s == 0.0


@pytest.mark.ray
def test_a_node_that_cannot_be_reached_keeps_what_was_measured_and_says_why(
    tmp_path: Path, port: int, clock: Clock
) -> None:
    hosts = ("one.invalid", "two.invalid")
    latency(lab(tmp_path, port, "local\nengine: ray", hosts), here=clock)
    clock.now_s += 7200
    rows = by_pair(latency(lab(tmp_path, port, "ssh", hosts), here=clock))
    row = rows["one.invalid", "here"]
    assert (row.source, row.age_s) == ("measured", 7200.0)
    assert row.why
    assert rows["one.invalid", "home"].why == "", "nothing was asked for that"


def test_without_locations_there_is_nothing_to_measure(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("kind: cluster\nname: lab\nprovider: local\n")
    with pytest.raises(SpecError, match="lab has no locations"):
        latency(str(file))


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=0, labels={"shoal.host": "second", "location": "home"})
    made.add_node(num_cpus=0, labels={"shoal.role": "driver"})
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_nodes_of_a_ray_cluster_measure_in_a_task(
    cluster: Any, tmp_path: Path, port: int, clock: Clock
) -> None:
    file = tmp_path / "big.yaml"
    file.write_text(
        f"kind: cluster\nname: big\nprovider: ray\naddress: '{cluster.address}'\n"
        f'locations: {{here: {{probe: "127.0.0.1:{port}"}}, home: {{probe: "nosuch.invalid:1"}}}}\n'
    )
    rows = by_pair(latency(str(file), here=clock))
    hosts = {node for node, _ in rows}
    assert len(hosts) == 2, "a node that is only there for a driver is left out"
    assert {rows[host, "here"].source for host in hosts} == {"measured"}
    assert rows["second", "home"].source == "label"
    assert "nobody knows" in rows["second", "home"].why
    clock.now_s += 60
    again = by_pair(latency(str(file), here=clock))
    assert again["second", "here"].age_s == 0.0, "its other probe failed, so it was asked again"


def boom(**_: Any) -> None:
    raise ValueError("no luck")


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_a_node_whose_task_fails_says_why(cluster: Any) -> None:
    from shoal.engine.ray.connection import on_every_node

    answers = on_every_node(boom, {"a": 1})
    assert len(answers) == 2
    for host, answer in answers.items():
        assert answer.error == f"{host}: ValueError: no luck"
