"""The nodes of a Ray cluster, as Shoal's own words have them."""

from __future__ import annotations

from typing import Any

import ray

from shoal.model import Node

HEAD = "node:__internal_head__"
"""The resource that only the head has."""
HOST_LABEL = "shoal.host"
"""What a node that we started is called in the cluster file."""


def alive() -> dict[str, tuple[str, Node]]:
    """By host: Ray's id of the node, and the node."""
    found: dict[str, tuple[str, Node]] = {}
    for entry in ray.nodes():
        if entry["Alive"]:
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
    )


def _unique(host: str, known: dict[str, tuple[str, Node]]) -> str:
    """Several Ray nodes on one machine have one name: the second is called `name-2`."""
    if host not in known:
        return host
    number = 2
    while f"{host}-{number}" in known:
        number += 1
    return f"{host}-{number}"
