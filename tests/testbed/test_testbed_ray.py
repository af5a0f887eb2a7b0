"""Ray runs over the hosts of a bed as over any machines, and its token keeps others out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed import CommandFailed, Host, Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray]

PORT = 6379
HEAD = "ray start --head --node-ip-address={head} --port={port} --include-dashboard=false"
NODE = "ray start --address={head}:{port} --node-ip-address={node}"
EVERY = " --num-cpus=1 --disable-usage-stats --temp-dir=/tmp/r"
TASKS = """
import ray, socket, sys
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
where = ray.remote(lambda: socket.gethostname())
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
there = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(each, soft=False)) for each in nodes]
print("ran on", *sorted(ray.get([each.remote() for each in there], timeout=60)))
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """`head` and `node` are a cluster; `guest` is on the same network, with a token of its own."""
    with Testbed(["head", "node", "guest"], delay_ms={("head", "node"): 2}) as bed:
        for host in bed:
            host.write("token", ("f" if host.name == "guest" else "0") * 64, mode=0o600)
        addresses = {"head": bed["head"].address, "node": bed["node"].address, "port": PORT}
        with_token(bed["head"], (HEAD + EVERY).format(**addresses).split())
        with_token(bed["node"], (NODE + EVERY).format(**addresses).split())
        yield bed


def with_token(host: Host, command: list[str]) -> str:
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{host.home}/token"}
    return host.run(command, env=env, timeout_s=90).stdout


@pytest.mark.parametrize("name", ["head", "node"])
def test_a_task_runs_on_each_of_two_hosts_whoever_asks(bed: Testbed, name: str) -> None:
    said = with_token(bed[name], ["python", "-c", TASKS, f"{bed['head'].address}:{PORT}"])
    assert "ran on head node" in said


def test_a_host_with_another_token_does_not_get_in(bed: Testbed) -> None:
    join = (NODE + EVERY).format(head=bed["head"].address, node=bed["guest"].address, port=PORT).split()
    with pytest.raises(CommandFailed, match=r"(?i)authenticat|token"):
        with_token(bed["guest"], join)
