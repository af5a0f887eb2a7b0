"""The contract that every engine keeps; `shoal.testing.EngineContract` checks it. No behaviour here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from shoal.model import Event, Factory, Item, Need, Node, Place


class Reservation(NamedTuple):
    """Places that were asked for together. `places` is empty while it is pending: then `Granted` or `Refused` comes."""

    id: int
    places: tuple[Place, ...]


class Engine(Protocol):
    """Somewhere work can run: this machine, a Ray cluster, or a simulation.

    Single-threaded by contract: the one loop that owns an engine makes every call. Only `wait` blocks.
    A worker runs one item at a time, in the order in which items were submitted.
    """

    name: str
    latency_s: float
    """About how long a worker that has nothing to do waits from the end of one item to the next it is given."""
    stagger_s: float
    """How long at most the first worker of a node has it to itself, to start and do one item; 0 where that is quick."""

    def nodes(self) -> Sequence[Node]:
        """The nodes that are alive now. May change between calls."""

    def capacity(self, need: Need) -> int:
        """How many such workers the nodes that are alive now could hold together, were they empty."""

    def reserve(
        self,
        needs: Sequence[Need],
        deadline_s: float | None,
        *,
        together: bool = False,
        lasts_s: float | None = None,
    ) -> Reservation:
        """All of the needs, or none.

        Granted at once where there is room and no other run is owed it; otherwise pending, until `Granted` or,
        `deadline_s` seconds from now (None: never), `Refused`. Raises `CannotPlace` with the reason for each node
        when the nodes could not hold it even if they were empty.

        With `together` the places are firm (none is ever recalled), on as few nodes as possible, and granted in line
        with those of all drivers, first come first served: what comes free is kept for the first in line, and other
        workers are recalled for it. `lasts_s` is how long the places will be held, where the caller can predict it:
        what is kept is lent (`Place.lent`) to those that will have given it back before the first could start, and to
        one that has had nothing for a while, for as short as it can.
        """

    def cancel_reservation(self, reservation: int) -> None:
        """Give up a pending reservation; nothing more is heard of it. Unknown or granted ones are ignored."""

    def release(self, place: Place) -> None:
        """Give back a place on which no worker was spawned."""

    def expect_release(self, place: Place, seconds: float) -> None:
        """Predict that a place whose worker was recalled will be free in so many seconds: until then, what is kept for
        the first in line may be lent. A place that is not held is ignored."""

    def spawn(self, factory: Factory, place: Place) -> int:
        """Start a worker on a place and return its id at once: `WorkerReady` follows, or `WorkerLost`."""

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        """Queue a chunk behind what the worker has. May be called before it is ready. A lost worker ignores it."""

    def recall(self, worker: int) -> None:
        """Ask for everything it has not started: exactly one `ItemsReturned` follows (or `WorkerLost`)."""

    def cancel(self, worker: int, seq: int, attempt: int, state: str, why: str) -> None:
        """Ask a running item to end: it ends as `state` (`stopped`, `pruned`, `failed`) with the error `why`.

        Not certain: user code may not listen. The caller decides how long to wait before it calls `kill`.
        An item that is not running on that worker is left alone.
        """

    def end(self, worker: int) -> None:
        """Let it finish what it has and go: `WorkerLost` with the cause `ended` follows. May be called twice."""

    def kill(self, worker: int) -> None:
        """End it now, with every process it started: `WorkerLost` with the cause `killed` follows."""

    def wait(self, timeout_s: float) -> Sequence[Event]:
        """Block until something happened or the time is up. Empty when the time was up."""

    def now(self) -> float:
        """Seconds since the epoch on this engine's own clock, never going back; virtual in a simulation."""

    def close(self) -> None:
        """Kill what is left, give back every lease. May be called twice. No event follows."""
