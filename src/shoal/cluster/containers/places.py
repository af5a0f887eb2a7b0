"""Where things are inside a container that Shoal made the image for. Pure."""

from __future__ import annotations

from shoal.errors import SpecError
from shoal.spec import Cluster, Workload

USER_ID = 1000
HOME = "/home/shoal"
WORK = f"{HOME}/work"
"""The workload's folder."""
RUNS = f"{HOME}/runs"
"""`SHOAL_HOME`: where runs are kept."""
DRIVER_FILE = "/etc/shoal/cluster.yaml"


def image_of(cluster: Cluster, workload: Workload | None = None) -> str:
    """The image of the containers: the workload's, else the cluster's."""
    found = (workload.image if workload is not None else None) or cluster.image
    if found is None:
        raise SpecError(
            f"No image is given for the containers of {cluster.name}.",
            hint="Make one with shoal export WORKLOAD --to image, and name it with image: in the cluster file.",
        )
    return found
