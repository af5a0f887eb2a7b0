"""The nodes a workload runs on, and the engine that runs it there: this machine, or what a cluster file names."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from shoal.cluster.base import Joined, Provider, Tell
from shoal.engine import fitting
from shoal.engine.base import Engine
from shoal.errors import ShoalError
from shoal.model import Need, Node
from shoal.spec import Cluster


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

    def ready(self) -> None:
        """Bring up and join what is needed to begin. `close` has to follow; the thread that calls it has to drive."""

    def engine(self, root: str, folder: str, session: str) -> Engine:
        """An engine for a run, once `ready`: `root` is the run's folder, `folder` the workload's."""
        from shoal.engine.local.engine import LocalEngine

        return LocalEngine(self.nodes, root, scope=self.scope, session=session)

    def close(self) -> None:
        """The run is over. May be called twice."""


class ClusterMachines(Machines):
    """The nodes of a cluster file, and the Ray engine on them."""

    def __init__(self, cluster: Cluster, file: str, tell: Tell) -> None:
        self.provider = provider_for(cluster, file)
        self.cluster = cluster
        self._tell = tell
        self._joined: Joined | None = None
        super().__init__(self.provider.inventory(), f"cluster {cluster.name}", file)

    def ready(self) -> None:
        """Work starts on the first node that is up: the head. The others follow meanwhile."""
        from shoal import namespaces
        from shoal.engine.ray.connecting import connect

        head = self.cluster.head
        self.provider.up(self._tell, [head.host] if head is not None else [])
        joined = self._joined = self.provider.join(self._tell)
        if joined.network is not None:
            namespaces.enter(joined.network)
        connect(joined.address, joined.ip)
        self._others = threading.Thread(target=self._start_others, name="shoal-cluster-up", daemon=True)
        self._others.start()

    def _start_others(self) -> None:
        try:
            self.provider.up(self._tell)
        except ShoalError as error:
            self._tell(f"{self.cluster.name}: {error}")

    def engine(self, root: str, folder: str, session: str) -> Engine:
        from shoal.engine.ray.engine import RayEngine

        if self.cluster.provider == "local":
            from shoal.cluster.local import environment_of_items

            return RayEngine(root, session=session, environment=environment_of_items())
        return RayEngine(root, folder=folder, session=session)

    def close(self) -> None:
        joined, self._joined = self._joined, None
        if joined is not None:
            from shoal.engine.ray.connecting import disconnect

            disconnect(joined.address)
            joined.leave()


def machines(cluster: str | None, tell: Tell = lambda line: None) -> Machines:
    """This machine, or what the cluster file names. Starts nothing."""
    if cluster is None:
        from shoal.cluster import inventory

        return Machines([inventory.this_machine()], "machine")
    from shoal import spec

    found = spec.load(cluster, kind="cluster")
    assert isinstance(found, Cluster)
    file = os.path.abspath(cluster)
    if found.provider == "local":
        from shoal.cluster import local

        if local.is_virtual(found):
            return Machines(local.virtual_nodes(found), f"cluster {found.name}", file)
    return ClusterMachines(found, file, tell)


def provider_for(cluster: Cluster, file: str) -> Provider:
    from shoal.cluster.choosing import provider_of

    return provider_of(cluster, file, _look)


def _look(address: str) -> Sequence[Node]:
    """The nodes of a Ray cluster that is there."""
    from shoal.engine.ray.connecting import connect, disconnect

    connect(address)
    try:
        from shoal.engine.ray.nodes import alive

        return [node for _, node in alive().values()]
    finally:
        disconnect(address)
