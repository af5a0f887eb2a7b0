"""Lets nodes go that stand idle: a detached actor on the head, so that it works on when all drivers are gone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from typing import Any, NamedTuple

import ray

from shoal.engine.ray import arbiter, nodes
from shoal.model.marks import LET_GO_FILE, NODE_VARIABLE

_log = logging.getLogger(__name__)

NAME = "shoal-keeper"
LOOK_S = 1.0
DRAIN_S = 5.0


class Terms(NamedTuple):
    """When nodes may go."""

    least: int
    """Nodes that stay, the head among them."""
    idle_s: float


class Keeper:
    """The actor. `keep` runs until its cluster ends; new terms replace the old ones."""

    def __init__(self, terms: Terms, address: str) -> None:
        self._terms = terms
        self._address = address
        self._busy_at: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._keeping = False

    def set_terms(self, terms: Terms) -> None:
        self._terms = terms

    async def keep(self) -> None:
        if self._keeping:  # Every driver asks for it, and no call to an actor that never returns may pile up.
            return
        self._keeping = True
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look_around()
            except Exception:  # noqa: BLE001 - whatever it was: nobody would start the keeper again.
                _log.exception("Idle nodes could not be looked for; that is tried again.")

    async def _look_around(self) -> None:
        busy = await arbiter.find_or_make().busy.remote()
        self._look(nodes.alive(), set(busy), time.time())

    def _look(self, alive: dict[str, tuple[str, Any]], busy: set[str], now: float) -> None:
        for host in alive:
            self._busy_at[host] = now if host in busy else self._busy_at.get(host, now)
        self._leaving &= alive.keys()
        staying = [host for host in alive if host not in self._leaving]
        for host in sorted(staying, key=lambda host: self._busy_at[host]):
            idle_s = now - self._busy_at[host]
            if len(staying) - 1 < self._terms.least or idle_s < self._terms.idle_s:
                return
            if host != nodes.head_host() and self._drain(alive[host][0]):
                staying.remove(host)
                self._leaving.add(host)
                self._busy_at.pop(host)
                why = f"it stood idle for {idle_s:.0f} s, and {len(staying)} stay"
                self._note({"at": now, "host": host, "change": "let go", "why": why})

    def _note(self, change: dict[str, Any]) -> None:
        """In a file beside the head's own, where `shoal cluster status` finds it."""
        folder = os.environ.get(NODE_VARIABLE)
        if folder is not None:
            with open(os.path.join(folder, LET_GO_FILE), "a", encoding="utf-8") as file:
                file.write(json.dumps(change) + "\n")

    def _drain(self, node_id: str) -> bool:
        """Whether Ray agreed: a node that works after all stays."""
        from ray._raylet import GcsClient  # type: ignore[attr-defined, unused-ignore]
        from ray.core.generated import autoscaler_pb2

        reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_IDLE_TERMINATION")
        deadline_ms = int((time.time() + DRAIN_S) * 1000)
        accepted, _ = GcsClient(address=self._address).drain_node(node_id, reason, "idle", deadline_ms)
        return bool(accepted)


def ensure(least: int, idle_s: float) -> None:
    """See to it that idle nodes go, from now on by these terms."""
    terms = Terms(least, idle_s)
    options = {"name": NAME, "namespace": arbiter.NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
    address = ray.get_runtime_context().gcs_address
    keeper = (
        ray.remote(Keeper)
        .options(num_cpus=0, max_concurrency=4, resources={nodes.HEAD: 0.001}, **options)
        .remote(terms, address)
    )
    ray.get(keeper.set_terms.remote(terms))
    keeper.keep.remote()
