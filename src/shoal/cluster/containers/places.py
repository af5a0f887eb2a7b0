"""Where things are inside a container that Shoal made the image for, and the cluster file its driver uses. Pure."""

from __future__ import annotations

from typing import Any

from shoal.spec import Cluster

USER_ID = 1000
HOME = "/home/shoal"
WORK = f"{HOME}/work"
"""The workload's folder."""
RUNS = f"{HOME}/runs"
"""`SHOAL_HOME`: where runs are kept."""
DRIVER_FILE = "/etc/shoal/cluster.yaml"


def driver_file(cluster: Cluster) -> dict[str, Any]:
    """What a driver inside the cluster is told: the Ray that is there, and what the file says of places to be near."""
    locations = {
        name: ({"probe": place.probe} if place.probe else {}) | dict(place.known_s)
        for name, place in cluster.locations.items()
    }
    found = {"kind": "cluster", "name": cluster.name, "provider": "ray", "address": "auto"}
    storage = {"storage": cluster.storage} if cluster.storage else {}
    return found | storage | ({"locations": locations} if locations else {})
