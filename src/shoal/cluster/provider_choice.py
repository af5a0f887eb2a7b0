"""The provider that a cluster file names, loaded when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.cluster.base import Provider
from shoal.model import Node
from shoal.spec import Cluster


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
