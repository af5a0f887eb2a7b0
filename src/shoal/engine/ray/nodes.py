"""The nodes of a Ray cluster, as Shoal's own words have them, and what Ray has free on each."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ray
from ray._private.state import available_resources_per_node

from shoal.model import Node
from shoal.model.marks import DRIVER_ROLE, HOST_LABEL, ROLE_LABEL, SPEED_LABEL

HEAD = "node:__internal_head__"
"""The resource that only the head has."""


class Free(NamedTuple):
    """What Ray has given to nobody on a node, Shoal or not."""

    cpu: float
    gpu: float
    memory_bytes: int


def alive() -> dict[str, tuple[str, Node]]:
    """By host: Ray's id of the node, and the node."""
    found: dict[str, tuple[str, Node]] = {}
    for entry in ray.nodes():
        if entry["Alive"] and (entry.get("Labels") or {}).get(ROLE_LABEL) != DRIVER_ROLE:
            node = _node(entry)
            found[_unique(node.host, found)] = (
                entry["NodeID"],
                node._replace(host=_unique(node.host, found)),
            )
    return found


def head_host() -> str | None:
    """The node that leads."""
    head = [entry for entry in ray.nodes() if entry["Alive"] and HEAD in entry.get("Resources", {})]
    return _node(head[0]).host if head else None


def free() -> dict[str, Free]:
    """By Ray's id of the node. What changed in the last tenth of a second may not show yet."""
    return {
        node_id: Free(
            float(resources.get("CPU", 0.0)),
            float(resources.get("GPU", 0.0)),
            int(resources.get("memory", 0)),
        )
        for node_id, resources in available_resources_per_node().items()
    }


def _node(entry: dict[str, Any]) -> Node:
    resources = entry.get("Resources", {})
    labels = entry.get("Labels") or {}
    host = labels.get(HOST_LABEL) or entry.get("NodeName") or entry["NodeManagerHostname"]
    return Node(
        str(host),
        float(resources.get("CPU", 0.0)),
        int(resources.get("memory", 0)),
        int(resources.get("GPU", 0)),
        {name: value for name, value in labels.items() if not name.startswith("ray.io/")},
        _speed(labels.get(SPEED_LABEL)),
    )


def _speed(text: str | None) -> float:
    """What somebody measured and wrote on the node; 1 where nobody did, or where it makes no sense."""
    try:
        speed = float(text or 1.0)
    except ValueError:
        return 1.0
    return speed if math.isfinite(speed) and speed > 0 else 1.0


def _unique(host: str, known: dict[str, tuple[str, Node]]) -> str:
    """Several Ray nodes on one machine have one name: the second is called `name-2`."""
    if host not in known:
        return host
    number = 2
    while f"{host}-{number}" in known:
        number += 1
    return f"{host}-{number}"
