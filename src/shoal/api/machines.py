"""The nodes a workload runs on, and the engine that runs it there: this machine, or what a cluster file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shoal.engine import fitting
from shoal.model import Need, Node

if TYPE_CHECKING:
    from shoal.api.growing import Growing
    from shoal.cluster.base import Tell
    from shoal.engine.base import Engine


class Machines:
    """This machine, or virtual nodes on it: the embedded engine."""

    file: str | None = None
    """The cluster file that names them."""

    def __init__(self, nodes: Sequence[Node], scope: str, file: str | None = None) -> None:
        self.nodes = nodes
        self.scope = scope
        """Drivers with the same scope share these nodes."""
        self.file = file

    def ensure_room(self, need: Need) -> int:
        """How many such workers there is room for; raises `CannotPlace` when there is none."""
        fitting.ensure_possible([need], self.nodes)
        return fitting.capacity(need, self.nodes)

    def ensure_shippable(self, folder: str) -> None:
        """Raises `SpecError` when the workload's folder is too large for the way to these nodes."""

    def ready(self, need: Need) -> None:
        """Bring up and join what is needed to begin. `close` has to follow; the thread that calls it has to drive."""

    def growing(self, need: Need, alive: Callable[[], Sequence[Node]]) -> Growing | None:
        """Who starts more nodes while the run needs them; None where there are always as many."""
        return None

    def engine(self, root: str, folder: str, session: str) -> Engine:
        """An engine for a run, once `ready`: `root` is the run's folder, `folder` the workload's."""
        from shoal.engine.local.engine import LocalEngine

        return LocalEngine(self.nodes, root, scope=self.scope, session=session)

    def close(self) -> None:
        """The run is over. May be called twice."""


def machines(cluster: str | None, tell: Tell = lambda line: None) -> Machines:
    """This machine, or what the cluster file names. Starts nothing."""
    if cluster is None:
        from shoal.cluster import inventory

        return Machines([inventory.this_machine()], "machine")
    from shoal.api.clusters import is_virtual, load

    found, file = load(cluster), os.path.abspath(cluster)
    if is_virtual(found):
        from shoal.cluster.virtual import virtual_nodes

        return Machines(virtual_nodes(found), f"cluster {found.name}", file)
    from shoal.api.clustered import ClusterMachines

    return ClusterMachines(found, file, tell)
