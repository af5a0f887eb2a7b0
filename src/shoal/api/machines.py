"""The nodes a workload runs on: this machine, or those of a cluster file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from shoal.engine import fitting
from shoal.errors import SpecError
from shoal.model import Need, Node


class Machines(NamedTuple):
    nodes: Sequence[Node]
    scope: str
    """Drivers with the same scope share these nodes."""
    file: str | None = None
    """The cluster file that names them."""

    def ensure_room(self, need: Need) -> int:
        """How many such workers there is room for; raises `CannotPlace` when there is none."""
        fitting.ensure_possible([need], self.nodes)
        return fitting.capacity(need, self.nodes)


def machines(cluster: str | None) -> Machines:
    """This machine, or what the cluster file names."""
    if cluster is None:
        from shoal.cluster import inventory

        return Machines([inventory.this_machine()], "machine")
    from shoal import spec
    from shoal.cluster import local

    found = spec.load(cluster, kind="cluster")
    if found.provider != "local":
        raise SpecError(
            f"{cluster}: provider {found.provider!r} cannot run work yet.",
            hint="Use provider: local, which makes virtual nodes on this machine.",
        )
    return Machines(local.nodes(found), f"cluster {found.name}", os.path.abspath(cluster))
