"""Where things are inside a container that Shoal made the image for, and the cluster file its driver uses. Pure."""

from __future__ import annotations

from typing import Any

from shoal.errors import SpecError
from shoal.spec import Cluster, Workload

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


def image_of(cluster: Cluster, workload: Workload | None = None) -> str:
    """The image of the containers: the workload's, else the cluster's."""
    found = (workload.image if workload is not None else None) or cluster.image
    if found is None:
        raise SpecError(
            f"No image is given for the containers of {cluster.name}.",
            hint="Make one with shoal export WORKLOAD --to image, and name it with image: in the cluster file.",
        )
    return found
