"""Clusters that are driven from inside, because their nodes cannot reach the user's machine: what they share."""

from __future__ import annotations

import os

from shoal.cluster.base import Door, Joined
from shoal.cluster.containers.container_groups import described
from shoal.cluster.containers.kuberay import DASHBOARD_PORT
from shoal.cluster.head_requests import Detached
from shoal.errors import ClusterError
from shoal.spec import Cluster


def join(name: str, where: str, target: str) -> Joined:
    """For a driver that is inside already; every other is told what to do instead."""
    if os.environ.get("SHOAL_CLUSTER") == name:
        return Joined("auto", None, None, lambda: None)
    raise ClusterError(
        f"{name}: work in {where} is driven from inside, because Ray's nodes cannot reach this machine.",
        hint=f"Use shoal run --detach, or shoal export --to {target} with a workload.",
    )


def detached(name: str, cluster: Cluster, door: Door) -> Detached:
    """The runs that were handed to it, through its head's door."""
    ray = {"dashboard": f"127.0.0.1:{DASHBOARD_PORT}"}
    return Detached(name, door, described(cluster), ray)
