"""The provider `local` with real Ray nodes: several on this machine, to try on a laptop what will run on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from shoal.cluster.agent.requests import NodeRequest
from shoal.cluster.agent_calls import ThisMachine
from shoal.cluster.base import Done
from shoal.cluster.hosted import HostedProvider
from shoal.cluster.virtual import virtual_nodes
from shoal.errors import ClusterError
from shoal.model import Node
from shoal.spec import Cluster, ClusterNode


class LocalProvider(HostedProvider):
    """Ray nodes on this machine, kept in a network of their own where we are root."""

    is_here = True

    def __init__(self, cluster: Cluster, file: str) -> None:
        if not cluster.nodes:
            cluster = cluster.replaced(nodes=(ClusterNode(host=os.uname().nodename or "localhost"),))
        super().__init__(cluster, file, ThisMachine())

    def inventory(self) -> list[Node]:
        return virtual_nodes(self.cluster)

    def refresh(self) -> dict[str, str]:
        """Nothing: what this machine has is looked up whenever it is needed."""
        return {}

    def _request(self, node: ClusterNode, cluster: str, address: str | None) -> NodeRequest:
        # One machine has one speed: measured while others start beside it, it would only be wrong.
        return super()._request(node, cluster, address)._replace(speed=1.0, gpu=node.gpu or 0)

    def door(self) -> LocalDoor:
        return LocalDoor()


class LocalDoor:
    """The head is this machine."""

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        try:
            done = subprocess.run(
                _program(arguments),
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                cwd="/",  # Where no module of the user's is taken for one of Python's.
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"The head did not answer within {timeout_s:g} s.") from None
        return Done(done.returncode, done.stdout, done.stderr)

    def attach(self, arguments: Sequence[str]) -> int:
        return subprocess.run(_program(arguments), check=False).returncode

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        return port, lambda: None


def _program(arguments: Sequence[str]) -> list[str]:
    """`python` is the interpreter that runs Shoal."""
    first, *rest = arguments
    return [sys.executable if first == "python" else first, *rest]


def environment_of_items() -> dict[str, str]:
    """On this machine items inherit the environment, less what is Ray's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
