"""The nodes a workload runs on, and the engine that runs it there: this machine, or what a cluster file names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from shoal.engine import fitting
from shoal.engine.base import Engine
from shoal.errors import SpecError
from shoal.model import Need, Node

if TYPE_CHECKING:
    from shoal.engine.ray.packages import NodePackages


class Machines(NamedTuple):
    nodes: Sequence[Node]
    scope: str
    """Drivers with the same scope share these nodes."""
    file: str | None = None
    """The cluster file that names them."""
    provider: str = "local"
    equipped: bool = False
    """Whether the workload's packages are there (see `api.packages`)."""
    python: str | None = None
    """The interpreter that has them; None for the one that runs Shoal."""
    on_nodes: NodePackages | None = None
    """Which nodes of a Ray cluster have them."""

    def ensure_room(self, need: Need) -> int:
        """How many such workers there is room for; raises `CannotPlace` when there is none."""
        fitting.ensure_possible([need], self.nodes)
        return fitting.capacity(need, self.nodes)

    def engine(self, root: str, folder: str, session: str) -> Engine:
        """An engine for a run: `root` is the run's folder, `folder` the workload's."""
        if self.provider == "ray":
            from shoal.engine.ray.engine import RayEngine

            return RayEngine(root, folder=folder, session=session, packages=self.on_nodes)
        from shoal.engine.local.engine import LocalEngine

        return LocalEngine(self.nodes, root, scope=self.scope, session=session, python=self.python)


def machines(cluster: str | None) -> Machines:
    """This machine, or what the cluster file names."""
    if cluster is None:
        from shoal.cluster import inventory

        return Machines([inventory.this_machine()], "machine")
    from shoal import spec

    found = spec.load(cluster, kind="cluster")
    scope, file = f"cluster {found.name}", os.path.abspath(cluster)
    if found.provider == "local":
        from shoal.cluster import local

        return Machines(local.nodes(found), scope, file)
    if found.provider == "ray":
        from shoal.engine.ray.connecting import connect

        connect(found.address or "auto")
        from shoal.engine.ray.nodes import alive

        return Machines([node for _, node in alive().values()], scope, file, "ray")
    raise SpecError(
        f"{cluster}: provider {found.provider!r} cannot run work yet.",
        hint="Use provider: local (virtual nodes on this machine), or provider: ray (a Ray cluster that is up).",
    )
