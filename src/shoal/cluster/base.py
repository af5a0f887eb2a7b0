"""What every provider of clusters can do, and the values it speaks in. One module per provider, loaded late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shoal.model import Node
from shoal.spec import Cluster

if TYPE_CHECKING:
    from shoal.cluster.head_requests import Detached
    from shoal.cluster.hosted import HostedProvider


Tell = Callable[[str], None]
"""Says one line of progress to whoever watches."""


class NodeStatus(NamedTuple):
    """One node of a cluster file, as it is now."""

    host: str
    state: str
    """`up`, `starting`, `down` (not asked for), or `lost` (asked for, and not there)."""
    node: Node
    """What it has: measured where it is or was up, else what the file says."""
    head: bool = False
    requested_s: float | None = None
    """When it was last asked to start, in seconds since the epoch."""
    ready_s: float | None = None
    why: str = ""
    """What is wrong with it, or why it is not up."""
    measured_s: float | None = None
    """When what it has was measured, in seconds since the epoch; None where that is from the file, or just now."""


class Joined(NamedTuple):
    """This process as a driver of the cluster."""

    address: str
    """Where Ray is: what `ray.init` takes."""
    ip: str | None
    """The address of the Ray node on this machine that the driver belongs to."""
    network: str | None
    """The namespace that the cluster is kept in: the thread that drives has to be in it."""
    leave: Callable[[], None]
    """Ends what was started here for joining. May be called twice."""


class Done(NamedTuple):
    """What came of a command on the head."""

    code: int
    output: bytes
    errors: bytes


class Door(Protocol):
    """A way to run commands on the head, where detached runs and their folders are."""

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        """Run it to its end. Raises `ClusterError` when the head cannot be reached."""

    def attach(self, arguments: Sequence[str]) -> int:
        """Run it on this terminal: what it prints is printed here, as it comes. Its exit code."""

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        """A port of this machine's loopback that leads to that port of the head's, and what closes it again."""


class Provider(Protocol):
    """How the nodes of one cluster file are started, reached and ended.

    Calls block, and each may be repeated: `up` starts only what is not up, `down` ends only what is left.
    """

    @property
    def is_here(self) -> bool:
        """Whether all nodes are this machine: they see its files and have its environment, so nothing has to travel."""

    @property
    def is_started(self) -> bool:
        """Whether Shoal starts and ends the cluster; otherwise somebody else does."""

    @property
    def driven_from_inside(self) -> bool:
        """Whether runs are driven on the head alone, because nodes cannot reach this machine."""

    @property
    def hosts(self) -> HostedProvider | None:
        """Its hosts, where each has an agent of Shoal's: nodes are started there one by one, and asked directly."""

    def up(self, tell: Tell, hosts: Sequence[str] | None = None) -> Mapping[str, str]:
        """Start these nodes (None: all that should be there), the head first. What went wrong, by host.

        Raises `ClusterError` when the head cannot be had: without it nothing works.
        """

    def down(self, tell: Tell, hosts: Sequence[str] | None = None) -> None:
        """End these nodes (None: all, and everything that was put anywhere for the cluster)."""

    def status(self) -> list[NodeStatus]:
        """Every node of the file, and those that joined without being in it. Starts nothing."""

    def inventory(self) -> list[Node]:
        """What the nodes have, for a plan: measured now or earlier, else from the file. Starts nothing."""

    def join(self, tell: Tell) -> Joined:
        """Make this process able to drive work there. Raises `ClusterError` where it cannot."""

    def door(self) -> Door:
        """A way to the head. Raises `ClusterError` where there is none."""

    def detached(self) -> Detached:
        """The runs that were handed to it. Raises `ClusterError` where none can be."""


def provider_of(cluster: Cluster, file: str, look: Callable[[str], Sequence[Node]]) -> Provider:
    """`look` gives the nodes of the Ray cluster at an address: how an existing one is looked at."""
    if cluster.provider == "local":
        from shoal.cluster.local import LocalProvider

        return LocalProvider(cluster, file)
    if cluster.provider == "ssh":
        from shoal.cluster.ssh import SshProvider

        return SshProvider(cluster, file)
    if cluster.provider == "kubernetes":
        from shoal.cluster.containers.kubernetes import KubernetesProvider

        return KubernetesProvider(cluster, file)
    if cluster.provider == "swarm":
        from shoal.cluster.containers.swarm import SwarmProvider

        return SwarmProvider(cluster, file)
    from shoal.cluster.ray import RayProvider

    return RayProvider(cluster, look)
