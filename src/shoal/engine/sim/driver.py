"""One driver as the simulated cluster sees it: its inbox, and what it can know of its workers."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.engine.sim.clock import Clock
from shoal.engine.sim.records import Trace
from shoal.model import (
    Event,
    Item,
    ItemEnded,
    ItemsReturned,
    ItemStarted,
    LostCause,
    NodeLost,
    Place,
    WorkerLost,
)


class Known:
    """What a driver knows of a worker it has not lost: where it is, what it was given, what it said of it."""

    __slots__ = ("outstanding", "place", "running")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.outstanding: set[tuple[int, int]] = set()
        self.running: tuple[int, int] | None = None


class Driver:
    """`key` is unique in the world, `name` is not: a driver that goes on with a run may have the old name."""

    __slots__ = ("clock", "closed", "crashed", "heir", "inbox", "key", "name", "trace", "workers")

    def __init__(self, key: str, name: str, clock: Clock, trace: Trace | None) -> None:
        self.key = key
        self.name = name
        self.clock = clock
        self.trace = trace
        self.inbox: list[Event] = []
        self.workers: dict[int, Known] = {}
        self.crashed = False
        self.closed = False
        self.heir: Driver | None = None
        """Who hears what comes for this one after its death."""

    @property
    def present(self) -> bool:
        return not (self.crashed or self.closed)

    def handed(self, worker: int, items: Sequence[Item]) -> None:
        self.workers[worker].outstanding.update((item.seq, item.attempt) for item in items)

    def receive(self, event: Event) -> None:
        """An event arrives, perhaps late, twice or for a worker of a predecessor."""
        if self.crashed:
            if self.heir is not None:
                self.heir.receive(event)
            return
        if self.closed:
            return
        self._learn(event)
        if self.trace is not None:
            self.trace.append((self.clock.now, self.key, event))
        self.inbox.append(event)

    def _learn(self, event: Event) -> None:
        if isinstance(event, ItemStarted):
            known = self.workers.get(event.worker)
            if known is not None and (event.seq, event.attempt) in known.outstanding:
                known.running = (event.seq, event.attempt)
        elif isinstance(event, ItemEnded):
            known = self.workers.get(event.worker)
            if known is not None:
                item = (event.seq, event.attempt)
                known.outstanding.discard(item)
                if known.running == item:
                    known.running = None
        elif isinstance(event, ItemsReturned):
            known = self.workers.get(event.worker)
            if known is not None:
                known.outstanding.difference_update(event.items)

    def lose(self, worker: int, at: float, cause: LostCause, why: str) -> None:
        """The one `WorkerLost` of a worker; later notices of its end are dropped."""
        known = self.workers.pop(worker, None)
        if known is not None and self.present:
            self.receive(WorkerLost(worker, at, cause, why, known.running))

    def lose_node(self, host: str, why: str) -> None:
        now = self.clock.now
        if self.present:
            self.receive(NodeLost(host, now, why))
        for worker in [worker for worker, known in self.workers.items() if known.place.host == host]:
            self.lose(worker, now, LostCause.NODE, why)
