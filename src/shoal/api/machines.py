"""The nodes a workload runs on, and the engine that runs it there: this machine, or what a cluster file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from shoal.engine import room
from shoal.errors import SpecError
from shoal.model import Asks, Node, Plan
from shoal.model.node import Packages

if TYPE_CHECKING:
    from shoal.api.clusters.autoscaling import Growing
    from shoal.api.driver_turn import Place
    from shoal.api.run_copy import Copying
    from shoal.cluster.base import Tell
    from shoal.engine.base import Engine
    from shoal.engine.ray.node_packages import NodePackages
    from shoal.files import Storage
    from shoal.spec import Cluster


class Machines:
    """This machine, or virtual nodes on it: the embedded engine."""

    file: str | None = None
    """The cluster file that names them."""
    embedded = True
    """Whether workers are processes of this machine, beside this one."""
    here = True
    """Whether nodes are this machine: workers have what is installed where Shoal runs, whichever engine starts them."""
    equipped = False
    """Whether the workload's packages are there (see `api.workloads`)."""
    python: str | None = None
    """The interpreter that has them; None for the one that runs Shoal."""
    on_nodes: NodePackages | None = None
    """Which nodes of a Ray cluster have them."""
    outside: str | None = None
    """The network namespace this thread came from, where it had to enter another to drive."""

    def __init__(
        self,
        nodes: Sequence[Node],
        scope: str,
        cluster: Cluster | None = None,
        file: str | None = None,
        tell: Tell = lambda line: None,
    ) -> None:
        self.nodes = nodes
        self.scope = scope
        """Drivers with the same scope share these nodes."""
        self.cluster = cluster
        self.file = file
        self._tell = tell

    def ensure_room(self, asks: Asks) -> None:
        """Raises `CannotPlace` when there is no room for one of the groups, even were the nodes empty."""
        for group in asks:
            room.ensure_possible(group, self.nodes)

    def ensure_shippable(self, folder: str) -> None:
        """Raises `SpecError` when the workload's folder is too large for the way to these nodes."""

    def ensure_reachable(self, paths: Mapping[str, str]) -> None:
        """Raises `SpecError` when workers would not find these files and folders of this machine, by their keys."""

    def ensure_equippable(self, packages: Packages) -> None:
        """Raises `SpecError` when workers cannot have packages that are not installed where Shoal runs."""

    def ready(self, asks: Asks) -> None:
        """Bring up and join what is needed to begin. `close` has to follow; the thread that calls it has to drive.

        Raises `CannotPlace` where a version of Shoal is at work there with which this one cannot share.
        """
        from shoal.engine.local.leases import ensure_understood

        ensure_understood(self.scope)

    def at_first(self, asks: Asks) -> list[Node]:
        """The nodes that a run which asks for this begins with."""
        return list(self.nodes)

    def with_growth(self, plan: Plan, asks: Asks) -> Plan:
        """A plan for the nodes at first, less what nodes save that will be started while it runs."""
        return plan

    def growing(self, asks: Asks, alive: Callable[[], Sequence[Node]]) -> Growing | None:
        """Who starts more nodes while the run needs them; None where there are always as many."""
        return None

    def storage(self) -> Storage | None:
        """What all nodes of the cluster reach; None where its file names nothing."""
        if self.cluster is None or self.cluster.storage is None:
            return None
        from shoal.files import open_storage

        return open_storage(self.cluster.storage, folder=self.cluster.folder)

    def copying(self, folder: str, turn: int) -> Copying | None:
        """Who copies the run's folder to the storage while the run goes; None where there is no storage."""
        storage = self.storage()
        if storage is None:
            return None
        from shoal.api.run_copy import Copying
        from shoal.cluster.this_machine import Here

        return Copying(folder, storage, turn, self.outside, self._tell, Here().now)

    def turns(self, run: str) -> Sequence[Place]:
        """Where the turns of a run are written down on the cluster; nowhere, where it has no storage."""
        storage = self.storage()
        if storage is None:
            return ()
        from shoal.api.driver_turn import Place
        from shoal.store.run_copies import turns_of

        return (Place(turns_of(storage, run), outside=self.outside, optional=True),)

    def tell(self, line: str) -> None:
        """Say something to the person who waits."""
        self._tell(line)

    def holders(self, run: str) -> Sequence[str]:
        """The other runs that hold places on these nodes now."""
        from shoal.engine.local.leases import holders

        return holders(self.scope, run)

    def engine(self, root: str, folder: str, session: str) -> Engine:
        """An engine for a run, once `ready`: `root` is the run's folder, `folder` the workload's."""
        from shoal.engine.local.engine import LocalEngine

        return LocalEngine(self.nodes, root, scope=self.scope, session=session, python=self.python)

    def close(self) -> None:
        """The run is over. May be called twice."""


class InlineMachines(Machines):
    """This process: for debugging."""

    def ensure_equippable(self, packages: Packages) -> None:
        if not packages.lines:
            return
        from shoal.engine.workers.packages import find

        if missing := ", ".join(find(packages).missing):
            raise SpecError(
                f"requirements: {missing}: not installed where Shoal runs, and inline, items run there.",
                hint="Install it beside Shoal, or leave out --inline.",
            )

    def with_growth(self, plan: Plan, asks: Asks) -> Plan:
        why = "inline, items run in this process, one at a time"
        decisions = (
            each._replace(choice=1, why=why) if each.name in ("workers", "places") else each
            for each in plan.decisions
        )
        return plan._replace(workers=1, decisions=tuple(decisions))

    def engine(self, root: str, folder: str, session: str) -> Engine:
        from shoal.engine.inline.engine import InlineEngine
        from shoal.engine.local.leases import Leases, table_path

        leases = Leases(self.nodes, self.scope, table_path(), os.path.basename(root))
        return InlineEngine(self.nodes, root, leases, session=session)


def machines(cluster: str | None, tell: Tell = lambda line: None, *, inline: bool = False) -> Machines:
    """This machine, what the cluster file names, or with `inline` this process. Starts nothing."""
    if inline and cluster is not None:
        raise SpecError(
            "A workload runs inline, in this process, or on the nodes of a cluster, not both.",
            hint="Leave out --inline, or --cluster.",
        )
    if cluster is None:
        from shoal.cluster import this_machine

        made = InlineMachines if inline else Machines
        return made([this_machine.this_machine()], "machine", tell=tell)
    from shoal.api.clusters.lifecycle import load
    from shoal.cluster.virtual import is_virtual, virtual_nodes

    found, file = load(cluster), os.path.abspath(cluster)
    if is_virtual(found):
        return Machines(virtual_nodes(found), f"cluster {found.name}", found, file, tell)
    from shoal.api.clusters.cluster_machines import ClusterMachines

    return ClusterMachines(found, file, tell)
