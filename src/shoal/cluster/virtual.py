"""The provider `local` without Ray: virtual nodes of the embedded engine, for which nothing has to be started."""

from __future__ import annotations

from importlib.util import find_spec

from shoal.cluster import this_machine
from shoal.model import Node
from shoal.spec import Cluster, ClusterNode


def is_virtual(cluster: Cluster) -> bool:
    """Whether its nodes exist only in the embedded engine."""
    if cluster.provider != "local":
        return False
    return cluster.engine == "embedded" or (cluster.engine is None and find_spec("ray") is None)


def virtual_nodes(cluster: Cluster) -> list[Node]:
    """The nodes of the file; what it does not say of one, it has from this machine.

    Virtual nodes share the machine: more CPU in all than it has makes every item slower, not the run faster.
    """
    machine = this_machine.this_machine()
    return [_node(node, machine) for node in cluster.nodes] or [machine]


def _node(node: ClusterNode, machine: Node) -> Node:
    return Node(
        node.host,
        float(node.cpu if node.cpu is not None else machine.cpu),
        node.memory_bytes if node.memory_bytes is not None else machine.memory_bytes,
        int(node.gpu if node.gpu is not None else 0),
        dict(node.labels),
    )
