"""What the agents of hosts are asked while nothing is up: what the hosts have, and how far away they are."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal import spec
from shoal.cluster import this_machine, variables
from shoal.cluster.agent_calls import ThisMachine
from shoal.cluster.hosted import HostedProvider
from shoal.cluster.local import LocalDoor
from shoal.errors import ClusterError


class OneAway(ThisMachine):
    """Every host is this machine, but one, which is switched off."""

    def ask(self, host: str, request: Mapping[str, Any]) -> Any:
        if host == "gone":
            raise ClusterError("gone does not answer.", hint="Is it on?")
        return super().ask(host, request)


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
    assert here.node.cpu == this_machine.room(this_machine.cpus())
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


@pytest.mark.ray
def test_a_start_that_failed_is_lost_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("kind: cluster\nname: lab\nprovider: ssh\nnodes: [{host: gone, cpu: 1, memory: 1GiB}]\n")

    class NoLook(OneAway):
        """By the time it is looked for it answers again, and there is nothing."""

        def ask(self, host: str, request: Mapping[str, Any]) -> Any:
            return None if request["do"] == "look" else super().ask(host, request)

    provider = Lab(spec.load(file, kind="cluster"), str(file), NoLook())
    with pytest.raises(ClusterError, match="did not come up: gone does not answer"):
        provider.up(lambda line: None)
    (status,) = provider.status()
    assert (status.state, status.why) == ("lost", "gone does not answer.")
    provider.book.note("gone", requested_s=time.time(), ready_s=None, problem=None)
    assert provider.status()[0].state == "starting"
    provider.book.note("gone", requested_s=time.time() - 1000)
    assert provider.status()[0].state == "lost", "nobody waits for it any more"


def test_a_host_that_is_no_longer_in_the_file_is_listed_as_long_as_it_may_run(
    provider: HostedProvider,
) -> None:
    provider.book.open()
    provider.book.note("old", requested_s=1.0, ready_s=2.0)
    assert [(each.host, each.state) for each in provider.status()] == [
        ("a", "down"),
        ("gone", "down"),
        ("old", "lost"),
    ]
    assert "no longer in the file" in provider.status()[2].why


def test_an_agent_that_hangs_is_an_error_not_a_traceback(
    provider: HostedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ThisMachine, "patience_s", 0.01)
    with pytest.raises(ClusterError, match=r"a: the agent did not answer within 0\.01 s"):
        ThisMachine().ask("a", {"do": "probe"})
    with pytest.raises(ClusterError, match=r"The head did not answer within 0\.01 s"):
        LocalDoor().run(["python", "-c", "import time; time.sleep(60)"], timeout_s=0.01)


def test_the_variables_for_ray_go_with_the_last_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "own")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.delenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", raising=False)
    first, second = variables.set_for_ray("token"), variables.set_for_ray("token")
    first()
    first()
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN_PATH"]) == ("token", "token")
    second()
    assert os.environ["RAY_AUTH_MODE"] == "own"
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ
