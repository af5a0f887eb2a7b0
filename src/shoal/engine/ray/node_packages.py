"""A workload's packages on a Ray cluster: each node installs them for itself, once, before it gets work."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.engine import room
from shoal.engine.ray import arbiter
from shoal.errors import Problem, ShoalError, several
from shoal.model import Asks, Node
from shoal.model.node import Packages

_log = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often it is looked which nodes are done, so that Ctrl-C is heard."""
FORGIVEN = 2
"""How often an installer may be killed on a node that lives before the node is given up."""

SAY_S = arbiter.SILENT_S / 5
"""How often it is said which nodes install."""

Alive = Mapping[str, tuple[str, Node]]
"""By host: Ray's id of the node, and the node."""


class NodePackages:
    """Knows which nodes have the packages. `prepare` blocks; `ready` never does, and looks after nodes that join.

    Nodes that could not hold a worker of those that are asked for are left alone.
    """

    def __init__(self, wanted: Packages, asks: Asks) -> None:
        self.wanted = wanted
        self._asks = asks
        self._tasks: dict[str, Any] = {}
        self._ready: set[str] = set()
        self._killed: Counter[str] = Counter()
        self._unfit: dict[str, str] = {}
        """Why a node cannot have them."""
        self._said_at = -SAY_S

    def prepare(self, alive: Alive) -> None:
        """Install on these nodes, all at once. Raises `SpecError` that names every one where it is not possible."""
        names = {node_id: host for host, (node_id, _) in alive.items()}
        self._begin(alive)
        while self._tasks:
            self._say_busy(alive)
            ray.wait(list(self._tasks.values()), num_returns=len(self._tasks), timeout=LOOK_S)
            self._collect()
        problems = [
            Problem(f"On {host}: {self._unfit[node_id]}")
            for node_id, host in names.items()
            if node_id in self._unfit
        ]
        if problems:
            raise several(problems)

    def ready(self, alive: Alive) -> dict[str, tuple[str, Node]]:
        """The nodes that have the packages. On those it has not heard of, the packages are being installed."""
        self._begin(alive)
        self._say_busy(alive)
        before = set(self._unfit)
        self._collect()
        for host, (node_id, _) in alive.items():
            if node_id in self._unfit.keys() - before:
                _log.warning("%s gets no work: %s", host, self._unfit[node_id])
        return {
            host: (node_id, node)
            for host, (node_id, node) in alive.items()
            if node_id in self._ready or not self._concerns(node)
        }

    def _concerns(self, node: Node) -> bool:
        return room.slots(self._asks, node) > 0

    def _begin(self, alive: Alive) -> None:
        for node_id, node in alive.values():
            heard_of = node_id in self._ready or node_id in self._unfit or node_id in self._tasks
            if not heard_of and self._concerns(node):
                strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
                task = ray.remote(_install).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
                self._tasks[node_id] = task.remote(self.wanted)

    def _say_busy(self, alive: Alive) -> None:
        """Nodes that install hold no place yet, and would be let go as idle."""
        hosts = [host for host, (node_id, _) in alive.items() if node_id in self._tasks]
        if hosts and time.monotonic() - self._said_at > SAY_S:
            self._said_at = time.monotonic()
            arbiter.find_or_make().prepares.remote(hosts)

    def _collect(self) -> None:
        """Hear of the tasks that have ended."""
        if not self._tasks:
            return
        ended, _ = ray.wait(list(self._tasks.values()), num_returns=len(self._tasks), timeout=0)
        for node_id, task in list(self._tasks.items()):
            if task not in ended:
                continue
            del self._tasks[node_id]
            why = self._answer(node_id, task)
            if why is not None:
                self._unfit[node_id] = why

    def _answer(self, node_id: str, task: Any) -> str | None:
        """Why the node cannot have the packages; None when it has them, or when the task is worth another try."""
        try:
            why: str | None = ray.get(task)
        except RayTaskError as error:
            return f"requirements: the packages could not be installed: {error.cause or error}"
        except RayError as error:
            # Most likely the node is gone; while it lives, it is asked again.
            self._killed[node_id] += 1
            killed_often = self._killed[node_id] > FORGIVEN
            return f"requirements: what installs packages was killed: {error}" if killed_often else None
        if why is None:
            self._ready.add(node_id)
        return why


def _install(wanted: Packages) -> str | None:
    """Runs on a node: why it cannot have the packages; None when it has them."""
    from shoal import namespaces
    from shoal.engine.workers import packages

    try:
        with namespaces.inside(os.environ.get(namespaces.OUTSIDE)):  # Packages come over the network.
            packages.ensure(wanted)
    except ShoalError as error:
        return f"{error} {error.hint or ''}".strip()
    return None
