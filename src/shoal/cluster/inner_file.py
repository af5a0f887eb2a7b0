"""The cluster file that drivers inside a cluster use: its Ray, and what the user's file says besides. Pure."""

from __future__ import annotations

import os
from typing import Any

from shoal.files import is_url
from shoal.spec import Cluster


def described(cluster: Cluster, address: str = "auto") -> dict[str, Any]:
    """For drivers that are on one of its nodes already. A storage that is a path is the same path there."""
    found: dict[str, Any] = {
        "kind": "cluster",
        "name": cluster.name,
        "provider": "ray",
        "address": address,
    }
    if cluster.storage:
        is_path = not is_url(cluster.storage)
        found["storage"] = (
            os.path.abspath(os.path.join(cluster.folder, cluster.storage)) if is_path else cluster.storage
        )
    if cluster.locations:
        found["locations"] = {
            name: ({"probe": place.probe} if place.probe else {}) | dict(place.known_s)
            for name, place in cluster.locations.items()
        }
    return found
