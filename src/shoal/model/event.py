"""What an engine tells the loop that owns it. Times are on that engine's clock.

Events of items carry (seq, attempt): one that does not match what was last handed out is stale, and is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.model.item import LogSlice, Outcome
from shoal.model.node import Node, Place
from shoal.model.states import LostCause


class ItemStarted(NamedTuple):
    worker: int
    seq: int
    attempt: int
    at: float
    log: LogSlice | None = None


class ItemProgressed(NamedTuple):
    """`shoal.report` was called."""

    worker: int
    seq: int
    attempt: int
    at: float
    metrics: Mapping[str, Any]
    step: int | None


class ItemEnded(NamedTuple):
    worker: int
    seq: int
    attempt: int
    at: float
    outcome: Outcome


class ItemsReturned(NamedTuple):
    """A recalled worker gave back what it had not started, as (seq, attempt)."""

    worker: int
    items: tuple[tuple[int, int], ...]
    at: float


class WorkerReady(NamedTuple):
    """The worker has built its runner and takes chunks. `startup_s` is what that took.

    `facts` are what it says of itself: `pid`, `address` (of its host), `devices`, and what its runner adds.
    """

    worker: int
    at: float
    startup_s: float
    facts: Mapping[str, Any] = {}


class FactsChanged(NamedTuple):
    """The facts of a worker are others from now on: all of them. Comes before the end of the item that did it."""

    worker: int
    at: float
    facts: Mapping[str, Any]


class WorkerLost(NamedTuple):
    """The worker is gone, whatever the reason; its place is free again. Exactly one per spawned worker.

    `running` is the (seq, attempt) that had started and not ended, as far as the engine can know.
    """

    worker: int
    at: float
    cause: LostCause
    why: str
    running: tuple[int, int] | None = None


class NodeJoined(NamedTuple):
    node: Node
    at: float


class NodeLost(NamedTuple):
    """Comes before the `WorkerLost` of each worker that was there."""

    host: str
    at: float
    why: str


class Granted(NamedTuple):
    """A pending reservation got its places."""

    reservation: int
    places: tuple[Place, ...]
    at: float


class Refused(NamedTuple):
    """A pending reservation reached its deadline, or can no longer be satisfied."""

    reservation: int
    why: str
    at: float


class LeaseRecalled(NamedTuple):
    """Another run is owed this worker's share: end it at the next chunk boundary."""

    worker: int
    at: float


Event = (
    ItemStarted
    | ItemProgressed
    | ItemEnded
    | ItemsReturned
    | WorkerReady
    | FactsChanged
    | WorkerLost
    | NodeJoined
    | NodeLost
    | Granted
    | Refused
    | LeaseRecalled
)
