"""Distances and speeds of real hosts, with a real network between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed import Host, Testbed

pytestmark = pytest.mark.hosts

FILE = """
kind: cluster
name: lab
provider: ssh
nodes: [{{host: near}}, {{host: far}}, {{host: dead}}]
locations:
  gateway: {{probe: "gateway:22"}}
  address: {{probe: "{address}"}}
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    delays = {("near", "gateway"): 2.0, ("far", "gateway"): 20.0}
    with Testbed(["desk", "near", "far", "dead", "gateway"], delay_ms=delays) as bed:
        bed["desk"].write("lab.yaml", FILE.format(address=bed["gateway"].address))
        bed["dead"].kill()
        yield bed


def shoal(host: Host, *arguments: str) -> Any:
    return json.loads(host.run(["python", "-m", "shoal", *arguments, "--json"], timeout_s=90).stdout)


def test_each_host_measures_from_where_it_is_and_one_that_is_dead_says_so(bed: Testbed) -> None:
    desk = bed["desk"]
    found = shoal(desk, "cluster", "latency", "lab.yaml", "--refresh")
    rows = {(row["node"], row["location"]): row for row in found}
    for location in ("gateway", "address"):
        near, far, dead = (rows[node, location] for node in ("near", "far", "dead"))
        assert 0.004 <= near["min_s"] < 0.030
        assert 0.040 <= far["min_s"] < 0.080
        assert near["source"] == far["source"] == "measured"
        assert [near["nearest"], far["nearest"], dead["nearest"]] == [True, False, False]
        assert dead["min_s"] is None
        assert "dead" in dead["why"]


def test_what_was_measured_stays_until_it_is_measured_again(bed: Testbed) -> None:
    desk = bed["desk"]
    shoal(desk, "cluster", "latency", "lab.yaml", "--refresh")
    bed.delay("near", "gateway", 30.0)
    try:
        kept = shoal(desk, "cluster", "latency", "lab.yaml")[0]
        again = shoal(desk, "cluster", "latency", "lab.yaml", "--refresh")[0]
    finally:
        bed.delay("near", "gateway", 2.0)
    assert kept["min_s"] < 0.030
    assert again["min_s"] >= 0.032


def test_a_host_with_half_a_cpu_is_half_as_fast(bed: Testbed) -> None:
    host = bed["near"]
    try:
        host.limit_cpu(0.5)
    except OSError as error:
        pytest.skip(str(error))
    slow = probe(host)
    host.limit_cpu(None)
    fast = probe(host)
    assert slow["cpu"] == 0.5
    assert slow["speed"] / fast["speed"] == pytest.approx(0.5, rel=0.2)


def probe(host: Host) -> Any:
    said = host.run(["python", "-m", "shoal.cluster.agent"], input='{"do": "probe"}\n', timeout_s=60).stdout
    return json.loads(said.partition("shoal-agent: ")[2])["ok"]
