"""The provider `local`: several virtual nodes on this machine, to try on a laptop what will run on a cluster."""

from __future__ import annotations

from shoal.cluster import inventory
from shoal.model import Node
from shoal.spec import Cluster


def nodes(cluster: Cluster) -> list[Node]:
    """The nodes of the file; what it does not say of one, it has from this machine.

    Virtual nodes share the machine: more CPU in all than it has makes every item slower, not the run faster.
    """
    machine = inventory.this_machine()
    return [
        Node(
            node.host,
            float(node.cpu if node.cpu is not None else machine.cpu),
            node.memory_bytes if node.memory_bytes is not None else machine.memory_bytes,
            int(node.gpu if node.gpu is not None else 0),
            dict(node.labels),
        )
        for node in cluster.nodes
    ] or [machine]
