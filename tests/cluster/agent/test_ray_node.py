"""What the nodes of one cluster on one machine share: it stays as long as one of them is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import namespaces
from shoal.cluster.agent import ray_node
from shoal.cluster.agent.ray_node import Ports, ray_start
from shoal.cluster.agent.requests import (
    NODE_FILE,
    TOKEN_FILE,
    HostFacts,
    NodeFacts,
    NodeRequest,
    base_folder,
    node_folder,
)
from shoal.errors import ClusterError

HOST = HostFacts("one", "3.11", "0.1", "2.60", 2.0, 1 << 32, (), 1.0)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        os.makedirs(os.path.dirname(node_folder("lab", "one")))
        yield Path(folder)
        ray_node.tidy("lab")


def in_a_thread(do: Callable[[], None]) -> None:
    """Only threads change their namespace, and this one is to stay where it is."""
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def network_of_head() -> str:
    found = ray_node._network(NodeRequest("lab", "one", "token", alone=True), node_folder("lab", "one"))
    if found is None:
        pytest.skip("needs the right to make namespaces")
    return found


def leave_node(host: str, network: str) -> None:
    os.makedirs(node_folder("lab", host))
    facts = NodeFacts(host, "127.0.0.1:1", "127.0.0.1", node_folder("lab", host), network=network)
    Path(node_folder("lab", host), NODE_FILE).write_text(json.dumps(facts._asdict()))


@pytest.mark.root
def test_the_network_of_a_cluster_stays_until_its_last_node_goes(folder: Path) -> None:
    network = network_of_head()
    for host in ("one", "two"):
        leave_node(host, network)
    assert ray_node.stop("lab", "two")
    ray_node.tidy("lab")
    assert os.path.exists(network)
    assert ray_node._network(NodeRequest("lab", "three", "", "127.0.0.1:1", alone=True), "") == network
    assert ray_node.stop("lab", "one")
    ray_node.tidy("lab")
    assert not os.path.exists(network)
    assert str(folder) not in Path("/proc/self/mounts").read_text()


@pytest.mark.root
def test_a_head_that_is_brought_back_from_inside_still_knows_the_outside(folder: Path) -> None:
    ours = os.stat(namespaces.MINE).st_ino
    network = network_of_head()
    found: list[int] = []

    def from_inside() -> None:
        namespaces.enter(network)
        network_of_head()
        found.append(os.stat(ray_node._outside("lab")).st_ino)
        found.append(os.stat(network).st_ino)

    in_a_thread(from_inside)
    assert found[0] == ours
    assert found[1] != ours


@pytest.mark.root
def test_the_driver_of_a_detached_run_begins_outside(folder: Path) -> None:
    network = network_of_head()
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.argv[1:] != ['job', 'job.json']:\n"
        "    open('network', 'w').write(os.readlink('/proc/self/ns/net'))\n"
    )
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    job = {"folder": str(folder), "arguments": ["--version"], "home": str(folder), "environment": given}
    (folder / "job.json").write_text(json.dumps(job))
    environment = {**os.environ, namespaces.OUTSIDE: ray_node._outside("lab")}
    command = [sys.executable, "-m", "shoal.cluster.agent.there", "job", "job.json"]

    def from_inside() -> None:
        namespaces.enter(network)
        subprocess.run(command, cwd=folder, env=environment, check=False)

    in_a_thread(from_inside)
    assert (folder / "network").read_text() == os.readlink("/proc/self/ns/net")


def test_agents_take_turns_also_when_one_of_them_removes_the_lock(folder: Path) -> None:
    node = node_folder("lab", "one")
    inside, begun = [], threading.Barrier(4)

    def turn() -> None:
        begun.wait()
        with ray_node._only_one(node):
            inside.append("in")
            time.sleep(0.05)  # Long enough for the others to come in, if they could.
            os.unlink(f"{node}.lock")
            inside.append("out")

    threads = [threading.Thread(target=turn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == ["in", "out"] * 4


@pytest.mark.root
def test_a_node_starts_though_another_user_took_the_name_of_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    os.chown(base_folder(), 12345, 12345)
    node = node_folder("lab", "one")
    with ray_node._only_one(node):
        assert node.startswith(f"{folder}/cache/shoal/")


def request(**given: Any) -> NodeRequest:
    return NodeRequest(**{"cluster": "lab", "host": "one", "token": "secret", **given})


def test_a_head_listens_for_jobs_on_loopback_only_and_wants_the_token(folder: Path) -> None:
    node = node_folder("lab", "one")
    command = ray_start(request(), node, "10.0.0.1", HOST, Ports(1, 2))
    assert "--dashboard-host=127.0.0.1" in command.arguments
    assert (command.environment["RAY_AUTH_MODE"], command.environment["RAY_AUTH_TOKEN_PATH"]) == (
        "token",
        f"{node}/{TOKEN_FILE}",
    )
    assert "secret" not in " ".join(command.arguments)


def test_without_a_token_nothing_listens_where_others_can_reach_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 22")
    with pytest.raises(ClusterError, match=r"Refused to listen on 10\.0\.0\.1 without a token"):
        ray_node._start(request(token=""), node_folder("lab", "one"), HOST)
    assert started == []


def test_a_node_that_runs_is_not_given_to_who_has_another_token(folder: Path) -> None:
    node = node_folder("lab", "one")
    os.makedirs(node)
    Path(node, TOKEN_FILE).write_text("secret")
    ray_node._check_token(request(), node)
    with pytest.raises(ClusterError, match="does not accept the token"):
        ray_node._check_token(request(token="other"), node)
