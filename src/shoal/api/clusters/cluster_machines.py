"""Running on the nodes of a cluster file: brought up where they are not, joined, and grown while work needs it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from shoal.api.clusters.autoscaling import Growing, HostGrowth, RayGrowth, Wish, spares_of
from shoal.api.machines import Machines
from shoal.cluster.base import Joined, Provider, Tell
from shoal.cluster.this_machine import Here
from shoal.engine import room
from shoal.engine.base import Engine
from shoal.errors import ClusterError, Problem, ShoalError, several
from shoal.files import is_url
from shoal.model import Asks, Node, Plan
from shoal.planner.node_growth import grown
from shoal.spec import Cluster

_log = logging.getLogger(__name__)


FIRST_NODE_S = 60.0
"""How long a Ray cluster that is there may take until one of its nodes has a CPU."""


class ClusterMachines(Machines):
    """The nodes of a cluster file, and the Ray engine on them."""

    embedded = False

    def __init__(self, cluster: Cluster, file: str, tell: Tell) -> None:
        self.provider = provider_for(cluster, file)
        self._joined: Joined | None = None
        self._connected = False
        self._wish: Wish | None = None
        """How an engine that was made is told which more places its run would use."""
        self.here = self.provider.is_here
        super().__init__(self.provider.inventory(), f"cluster {cluster.name}", cluster, file, tell)
        self.cluster: Cluster = cluster

    def ensure_shippable(self, folder: str) -> None:
        from shoal.engine.ray import shipment

        if not self.provider.is_here:
            shipment.ensure_shippable(folder)

    def ensure_reachable(self, paths: Mapping[str, str]) -> None:
        """Other machines see this one's files only below the cluster's storage, where that is a folder of all."""
        if self.provider.is_here:
            return
        shared = self.cluster.storage
        root = None if shared is None or is_url(shared) else os.path.join(self.cluster.folder, shared)
        problems = [
            Problem(
                f"{key}: {path} is on this machine, where the nodes of {self.cluster.name} do not reach it.",
                "Use s3:// or hdfs://, or a folder below the one that storage: of the cluster file names.",
            )
            for key, path in paths.items()
            if root is None
            or os.path.commonpath([os.path.realpath(root), os.path.realpath(path)]) != os.path.realpath(root)
        ]
        if problems:
            raise several(problems)

    def ready(self, asks: Asks) -> None:
        """Work starts on the first node that is up and has room. The others follow meanwhile."""
        failed = self.provider.up(self._tell, self._first(asks))
        if failed and not self._fits_head(asks):
            raise ClusterError("; ".join(f"{host}: {why}" for host, why in failed.items()))
        self._joined = self.provider.join(self._tell)
        try:
            self._connect(self._joined)
            self._ensure_understood()
            self._see_that_idle_nodes_go()
        except BaseException:
            self.close()
            raise
        self._others = threading.Thread(target=self._start_others, name="shoal-cluster-up", daemon=True)
        self._others.start()

    def _connect(self, joined: Joined) -> None:
        from shoal import namespaces
        from shoal.engine.ray.connection import connect

        if joined.network is not None:
            self.outside = namespaces.hold()
            namespaces.enter(joined.network)
        connect(joined.address, joined.ip)
        self._connected = True

    def _ensure_understood(self) -> None:
        from shoal.engine.ray.arbiter import ensure_understood

        ensure_understood()

    def _first(self, asks: Asks) -> list[str]:
        """The head, and where it has no room for the work, one more that has."""
        head = self.cluster.head
        if head is None or self._fits_head(asks):
            return [head.host] if head is not None else []
        fitting_ones = [node.host for node in self.nodes if room.slots(asks, node)]
        return [head.host, *fitting_ones[:1]]

    def _fits_head(self, asks: Asks) -> bool:
        head = self.cluster.head
        return any(node.host == head.host and room.slots(asks, node) for node in self.nodes if head)

    def _see_that_idle_nodes_go(self) -> None:
        scale = self.cluster.scale
        if scale is not None and self.provider.hosts is not None:
            from shoal.engine.ray import keeper

            keeper.ensure(max(1, scale.min), scale.idle_s)

    def at_first(self, asks: Asks) -> list[Node]:
        hosts = self.provider.hosts
        if self.cluster.scale is None or hosts is None:
            return list(self.nodes)
        wanted = {*hosts.wanted(), *self._first(asks)}
        return [node for node in self.nodes if node.host in wanted]

    def with_growth(self, plan: Plan, asks: Asks) -> Plan:
        hosts = self.provider.hosts
        if self.cluster.scale is None or hosts is None:
            return plan
        first = {node.host for node in self.at_first(asks)}
        others = [node for node in self.nodes if node.host not in first]
        spares = spares_of(others, asks, hosts.start_s())
        return grown(plan, spares, self.cluster.scale.max - len(first))

    def growing(self, asks: Asks, alive: Callable[[], Sequence[Node]]) -> Growing | None:
        hosts = self.provider.hosts
        if hosts is not None:
            return HostGrowth(hosts, asks, alive, self._tell) if self.cluster.scale is not None else None
        if self._wish is None or any(need.node is not None for group in asks for need in group):
            return None
        return RayGrowth(self._wish, asks, alive, self._tell)

    def _start_others(self) -> None:
        try:
            self.provider.up(self._tell)
        except ShoalError as error:
            self._tell(f"{self.cluster.name}: {error}")

    def engine(self, root: str, folder: str, session: str) -> Engine:
        from shoal.engine.ray.engine import RayEngine

        if self.provider.is_here:
            from shoal.cluster.local import environment_of_items

            environment = environment_of_items()
            return RayEngine(root, session=session, environment=environment, packages=self.on_nodes)
        made = RayEngine(root, folder=folder, session=session, packages=self.on_nodes, storage=self.storage())
        self._wish = made.wish
        return made

    def close(self) -> None:
        joined, self._joined = self._joined, None
        if joined is None:
            return
        try:
            if self._connected:
                self._disconnect(joined.address)
        finally:
            self._go_back_outside()
            joined.leave()

    def _disconnect(self, address: str) -> None:
        from shoal.engine.ray.connection import disconnect

        self._connected = False
        try:
            disconnect(address)
        except Exception as error:  # noqa: BLE001 - a Ray that is dead already may raise anything
            _log.debug("Ray could not be left: %s", error)

    def _go_back_outside(self) -> None:
        outside, self.outside = self.outside, None
        if outside is not None:
            from shoal import namespaces

            try:
                namespaces.enter(outside)
            finally:
                namespaces.release(outside)


def provider_for(cluster: Cluster, file: str) -> Provider:
    from shoal.cluster.base import provider_of

    return provider_of(cluster, file, _look)


def _look(address: str) -> Sequence[Node]:
    """The nodes of a Ray cluster that is there."""
    from shoal.engine.ray.connection import connect, disconnect

    connect(address)
    try:
        from shoal.engine.ray.nodes import alive

        here, waited_s = Here(), 0.0
        while True:
            nodes = [node for _, node in alive().values()]
            if any(node.cpu for node in nodes) or waited_s > FIRST_NODE_S:
                return nodes
            here.pause(0.5)  # A head that does no work: the others are on their way.
            waited_s += 0.5
    finally:
        disconnect(address)
