"""Clusters by their files: bringing them up and down, and what they have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from shoal import spec as specs
from shoal.cluster.virtual import is_virtual, virtual_nodes
from shoal.errors import SpecError
from shoal.spec import Cluster

if TYPE_CHECKING:
    from shoal.cluster.base import NodeStatus, Provider, Tell


def up(file: str, tell: Tell) -> Mapping[str, str]:
    """Start what is not up. What went wrong, by host: empty when all is well."""
    cluster = load(file)
    if is_virtual(cluster):
        tell(f"{cluster.name} has virtual nodes, which are always there.")
        return {}
    return _provider(cluster, file).up(tell)


def down(file: str, tell: Tell) -> None:
    """End all of it, and leave nothing behind."""
    cluster = load(file)
    if is_virtual(cluster):
        tell(f"{cluster.name} has virtual nodes, which are always there.")
        return
    _provider(cluster, file).down(tell)


def status(file: str, *, refresh: bool = False) -> list[NodeStatus]:
    """Every node of the file, as it is now. Starts nothing. With `refresh`, what hosts have is measured again."""
    cluster = load(file)
    if is_virtual(cluster):
        from shoal.cluster.base import NodeStatus

        return [NodeStatus(node.host, "up", node, why="virtual") for node in virtual_nodes(cluster)]
    provider = _provider(cluster, file)
    problems = _measure_again(provider) if refresh else {}
    return [
        node._replace(why=node.why or f"could not be measured again: {problems[node.host]}")
        if node.host in problems
        else node
        for node in provider.status()
    ]


def _measure_again(provider: Provider) -> Mapping[str, str]:
    """What went wrong, by host. Providers that always look have nothing to measure again."""
    return provider.hosts.refresh() if provider.hosts is not None else {}


def scale(file: str, count: int, tell: Tell) -> Mapping[str, str]:
    """Start or end nodes until so many are up, in the order of the file. What went wrong, by host."""
    cluster, provider = _started_by_us(file)
    head = cluster.head
    hosts = sorted((node.host for node in cluster.nodes), key=lambda host: head is None or host != head.host)
    most = len(hosts) if cluster.scale is None else min(cluster.scale.max, len(hosts))
    least = 1 if cluster.scale is None else max(1, cluster.scale.min)
    if not least <= count <= most:
        raise SpecError(
            f"{cluster.name} can have {least} to {most} nodes, found {count}.",
            hint="See nodes: and scale: in the cluster file.",
        )
    failed = provider.up(tell, hosts[:count])
    if hosts[count:]:
        provider.down(tell, hosts[count:])
    return failed


def notebook(file: str) -> tuple[str, Callable[[], None]]:
    """JupyterLab on the head: the address to open here, and what closes the tunnel to it."""
    _, provider = _started_by_us(file)
    port, token = provider.detached().notebook()
    here, close = provider.door().forward(port)
    return f"http://127.0.0.1:{here}/lab?token={token}", close


def _started_by_us(file: str) -> tuple[Cluster, Provider]:
    cluster = load(file)
    provider = None if is_virtual(cluster) else _provider(cluster, file)
    if provider is None or not provider.is_started:
        what = "has only virtual nodes" if provider is None else "was not started by Shoal"
        raise SpecError(f"{cluster.name} {what}.", hint="This is for clusters that Shoal starts.")
    return cluster, provider


def load(file: str) -> Cluster:
    """The cluster that a file describes."""
    cluster = specs.load(file, kind="cluster")
    assert isinstance(cluster, Cluster)
    return cluster


def _provider(cluster: Cluster, file: str) -> Provider:
    from shoal.api.clusters.cluster_machines import provider_for

    return provider_for(cluster, os.path.abspath(file))
