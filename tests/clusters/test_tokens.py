"""Nobody without the cluster's token gets in, and the token is nowhere but in files that only their owner can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from clusters.desk import Desk
from testbed import Host, Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long]

WRONG = "f" * 64
NODES = [{"host": "node0", "cpu": 1, "memory": "1GiB"}, {"host": "node1", "cpu": 1, "memory": "1GiB"}]
INIT = "import sys, ray; ray.init(address=sys.argv[1]); print('it is in:', ray.nodes())"
SECRET = """
import os
def main(n):
    return {"names": " ".join(os.environ)}
"""


class Lab(NamedTuple):
    """A cluster that is up, the desk it was brought up from, and somebody else on the same network."""

    desk: Desk
    guest: Desk
    token: str
    state: str
    address: str


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Testbed(["desk", "guest", "node0", "node1"]) as bed:
        desk, guest = Desk(bed), Desk(bed, "guest")
        desk.shoal("cluster", "up", desk.cluster(NODES))
        desk.finish(desk.sweep("secret", SECRET, {"n": [1, 2, 3]}), "--cluster", "lab.yaml")
        desk.shoal("run", "secret/secret.yaml", "--cluster", "lab.yaml", "--detach")
        guest.cluster(NODES)
        state = desk.host.read(f"{desk.book()}/state.json")
        token = desk.host.read(f"{desk.book()}/token")
        yield Lab(desk, guest, token, state, json.loads(state)["address"])


WAYS: dict[str, dict[str, str]] = {
    "none": {},
    "none-though-asked-for": {"RAY_AUTH_MODE": "token"},
    "wrong": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/home/guest/wrong"},
}


def test_whoever_goes_to_ray_itself_is_refused_as_well(lab: Lab) -> None:
    guest = lab.guest
    guest.host.write("wrong", WRONG, mode=0o600)
    there = guest.cluster([], name="there", provider="ray", address=lab.address)
    file = guest.sleeper("short", 3, 10)
    with ThreadPoolExecutor() as side_by_side:  # Ray tries for 20 s each time.
        ours = [
            side_by_side.submit(guest.shoal, "run", file, "--cluster", there, code=2, env=env)
            for env in WAYS.values()
        ]
        bare = [
            side_by_side.submit(guest.host.run, [*command, lab.address], env=env, check=False)
            for env in WAYS.values()
            for command in (["python", "-c", INIT], ["ray", "start", "--address"])
        ]
    for done in ours:
        assert "asks for a token" in done.result().stderr
    assert guest.runs() == []
    for done in bare:
        assert done.result().returncode != 0
        assert "AuthenticationError" in done.result().stderr
        assert "it is in" not in done.result().stdout


def test_the_token_is_only_in_files_that_nobody_else_can_read(lab: Lab) -> None:
    for name in ("desk", "node0", "node1"):
        host = lab.desk.bed[name]
        having = files_with(host, lab.token)
        assert [path for path in having if not path.endswith("/token")] == []
        assert having, "it is somewhere"
        for path in having:
            assert host.run(["stat", "-c", "%a", path]).stdout.strip() == "600"
        assert not [command for _, command in host.processes() if lab.token in command]


def files_with(host: Host, text: str) -> list[str]:
    """All files of a host that hold it: logs, books, copies of specs, databases, whatever."""
    folders = ["/tmp", "/var/tmp", "/dev/shm", host.work, host.home]
    command = ["find", *folders, "-path", "*/.venv", "-prune", "-o", "-type", "f", "-exec", "grep", "-lF"]
    return host.run([*command, text, "{}", "+"], check=False).stdout.split()
