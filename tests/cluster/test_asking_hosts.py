"""What the agents of hosts are asked while nothing is up: what the hosts have, and how far away they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal import spec
from shoal.cluster import inventory
from shoal.cluster.asking import ThisMachine
from shoal.cluster.hosted import HostedProvider
from shoal.cluster.local import LocalDoor
from shoal.errors import ClusterError


class OneAway(ThisMachine):
    """Every host is this machine, but one, which is switched off."""

    def ask(self, host: str, request: Mapping[str, Any], payload: bytes = b"") -> Any:
        if host == "gone":
            raise ClusterError("gone does not answer.", hint="Is it on?")
        return super().ask(host, request, payload)


class Lab(HostedProvider):
    def door(self) -> LocalDoor:
        return LocalDoor()


@pytest.fixture
def provider(tmp_path: Path) -> HostedProvider:
    file = tmp_path / "lab.yaml"
    file.write_text("kind: cluster\nname: lab\nprovider: ssh\nnodes: [{host: a}, {host: gone}]\n")
    return Lab(spec.load(file, kind="cluster"), str(file), OneAway())


def test_what_hosts_have_is_measured_again_where_they_answer(provider: HostedProvider) -> None:
    with provider.book.change() as state:
        state["inventory"] = {
            "a": {"cpu": 99, "memory_bytes": 1, "speed": 9.0, "measured_s": 1.0},
            "gone": {"cpu": 3, "memory_bytes": 1, "speed": 9.0, "measured_s": 1.0},
        }
    assert provider.refresh() == {"gone": "gone does not answer. Is it on?"}
    here, gone = provider.status()
    assert here.node.cpu == inventory.room(inventory.cpus())
    assert here.node.speed != 9.0
    assert here.measured_s is not None
    assert here.measured_s > 1.0
    assert (gone.node.cpu, gone.measured_s) == (3.0, 1.0), "what was known of it stays"


def test_each_host_is_asked_and_each_problem_is_its_own(provider: HostedProvider) -> None:
    request = {"do": "latency", "probes": {"home": "127.0.0.1:9"}, "samples": 2}
    answers, problems = provider.ask_each(["a", "gone"], request)
    assert list(answers) == ["a"]
    assert answers["a"]["home"]["samples"] == 2
    assert list(problems) == ["gone"]


def test_half_a_cpu_is_planned_as_one_that_is_slow(provider: HostedProvider) -> None:
    with provider.book.change() as state:
        state["inventory"] = {"a": {"cpu": 0.5, "memory_bytes": 1, "speed": 0.5}}
    node = provider.status()[0].node
    assert (node.cpu, node.speed) == (1.0, 0.5)
