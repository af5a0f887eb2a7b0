"""What a session needs of any shape, and the values in which shapes speak of a run. No behaviour here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal.model import Item, Outcome, RunState
from shoal.model.record import WorkerUse

LOOK_S = 0.05
"""How often running items are looked at for timeouts, and watchers are told."""


class Policy(NamedTuple):
    """The rules for items of one kind of worker."""

    retries: int = 0
    timeout_s: float | None = None
    concurrent: int | None = None
    """Most items that run at the same time."""
    ceiling: Mapping[str, int] | None = None
    """Most workers on each node, by host, and none on others; None: as many as there is room for."""
    stop_after: int | None = None
    """Stop the run when this many items have failed."""
    grace_s: float = 5.0
    """How long an item that was asked to end may take before its worker is killed."""
    commit_s: float = 0.2
    """How long a finished item may wait until it is durable, together with others."""
    crashes: int | None = None
    """How often an item whose worker died is tried again; None: as often as one that failed."""
    timeouts_count_as_crashes: bool = False
    """Whether an item that timed out is tried again as if its worker had died, which is then ended."""
    timeout_since_report: bool = False
    """Whether the time that an item may take begins anew with each of its reports."""
    backoff_s: float = 0.2
    """Before the first retry; doubles with each further one."""

    def allowed(self, crashed: bool) -> int:
        """How many further attempts an item gets that failed, or whose worker died."""
        return self.retries if not crashed or self.crashes is None else self.crashes


class Ended(NamedTuple):
    """An item whose final state is durable."""

    item: Item
    node: str
    started: float
    outcome: Outcome


class Running(NamedTuple):
    item: Item
    node: str
    since: float


class Progress(NamedTuple):
    """A moment of a run."""

    now: float
    counts: Mapping[str, int]
    """Items of this session by state: done, failed, pruned, stopped."""
    waiting: int
    """Known items that wait; a source may hold more."""
    running: Sequence[Running]
    workers: int
    rate: float
    """Items that ended per second, lately."""
    remaining_s: float | None
    """Seconds until what is known is done; None while nothing has been learned."""
    mean_s: float | None
    left: int | None = None
    """What a guide says is left to do, in what the kind counts."""
    least_s: float | None = None
    """Seconds for what is known already, where a guide cannot say `remaining_s` because more is being found."""
    working: int = 0
    """Workers that have ended an item: others may still load something."""
    useful: int | None = None
    """Most workers that there could be work for, were there room for them; None where nobody knows."""


class Watcher(Protocol):
    """Somebody who wants to see. Called from the shape's loop: quick, and never raising."""

    def durable(self, ended: Sequence[Ended]) -> None:
        """These have their final state, and it is recorded."""

    def moment(self, progress: Progress) -> None:
        """Now and then, several times a second."""


class Shape(Protocol):
    """One run of items on an engine, with a journal: a loop that its owner turns.

    Single-threaded like its engine: one thread makes every call but `stop`, which a watcher, a signal handler or
    another thread may call.
    """

    def step(self, most_s: float = LOOK_S) -> bool:
        """One turn of the loop, waiting no longer than `most_s`; False when everything is over.

        Then all workers are gone and all that happened is durable. `TakenOver`, and errors of the engine and the
        store that waiting does not mend, come out of here.
        """

    def stop(self) -> None:
        """Hand out nothing more, ask what runs to end, keep the rest for a resume. Too late when all has ended."""

    def abandon(self, why: str) -> None:
        """The engine is gone, and with it what ran: that waits again, for another driver, and used no attempt."""

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called in time, by somebody or by the shape itself."""

    def progress(self) -> Progress:
        """How it is doing at this moment."""

    def worker_uses(self) -> list[WorkerUse]:
        """Where the time of each worker went so far, those that are gone included."""

    def verdict(self) -> RunState | None:
        """The state in which the run ends, where that is decided: `stopped`, or `failed` where it gave up early.

        None: what became of its items decides.
        """


def drive(shape: Shape) -> None:
    """Until everything has ended, or until stopped."""
    while shape.step():
        pass


class Watchers:
    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def durable(self, ended: Sequence[Ended]) -> None:
        for watcher in self._watchers:
            watcher.durable(ended)

    def moment(self, progress: Progress) -> None:
        for watcher in self._watchers:
            watcher.moment(progress)
