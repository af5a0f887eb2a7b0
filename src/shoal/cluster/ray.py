"""The provider `ray`: a Ray cluster that somebody else started. It is joined and looked at, never started or ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shoal.cluster.base import Door, Joined, NodeStatus, Tell
from shoal.cluster.head_requests import Detached
from shoal.errors import ClusterError
from shoal.model import Node
from shoal.spec import Cluster


class RayProvider:
    """Keeps `Provider`. The cluster's token, if it has one, is where Ray itself looks for it."""

    is_here = False
    is_started = False
    driven_from_inside = False
    hosts = None

    def __init__(self, cluster: Cluster, look: Callable[[str], Sequence[Node]]) -> None:
        self.cluster = cluster
        self._address = cluster.address or "auto"
        self._look = look

    def up(self, tell: Tell, hosts: Sequence[str] | None = None) -> Mapping[str, str]:
        """Nothing: it is up, or somebody else has to start it."""
        return {}

    def down(self, tell: Tell, hosts: Sequence[str] | None = None) -> None:
        tell(f"{self.cluster.name} was not started by Shoal, so Shoal does not end it.")

    def status(self) -> list[NodeStatus]:
        return [NodeStatus(node.host, "up", node) for node in self.inventory()]

    def inventory(self) -> list[Node]:
        return list(self._look(self._address))

    def join(self, tell: Tell) -> Joined:
        return Joined(self._address, None, None, lambda: None)

    def door(self) -> Door:
        raise self._no_way()

    def detached(self) -> Detached:
        raise self._no_way()

    def _no_way(self) -> ClusterError:
        return ClusterError(
            f"Shoal has no way to run commands on the head of {self.cluster.name}.",
            hint="Detached runs and notebooks need a cluster that Shoal started.",
        )
