"""What a pool is given and what it tells: policies, sources of items, watchers, progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from shoal.model import Item, Outcome


class Policy(NamedTuple):
    """The rules of one run."""

    retries: int = 0
    timeout_s: float | None = None
    concurrent: int | None = None
    """Most items that run at the same time."""
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


class Source(Protocol):
    """Where new items come from: a table, a grid, a search that learns from the results."""

    def take(self, most: int, workers: int) -> Sequence[Item]:
        """New items, numbered onwards: fewer than `most` or more, as suits the source; none when it has none now.

        `workers` is how many could work at the same time.
        """

    def left(self) -> int:
        """How many more there will be, as far as the source can tell."""

    def finished(self) -> bool:
        """Whether `take` will never give anything again."""

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        """The item reported. Returns why it should be pruned, or None."""

    def ended(self, item: Item, outcome: Outcome) -> None:
        """The item has its final state."""


class Guide(Protocol):
    """Who says how items are gone about, where the kind tunes that while it runs. Called from the pool's loop."""

    def active(self, host: str, workers: int) -> int:
        """How many of the workers that a node has now should be given items."""

    def sent(self, item: Item, worker: int, host: str) -> Item:
        """The item as it is handed to this worker: with what only this hand-out needs. Not recorded."""

    def lost(self, worker: int, cause: str) -> None:
        """This worker is gone; `cause` as in `WorkerLost`."""

    def ahead(self) -> int:
        """How many items a worker has, however long they take: with 2, it can read the next one while one runs."""

    def remaining_s(self) -> float | None:
        """Seconds until everything is done; None while nothing is known."""

    def left_to_do(self) -> int | None:
        """How much has not ended, in what the kind counts (inputs, rather than items); None while nobody knows."""


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


class Watcher(Protocol):
    """Somebody who wants to see. Called from the pool's loop: quick, and never raising."""

    def durable(self, ended: Sequence[Ended]) -> None:
        """These have their final state, and it is recorded."""

    def moment(self, progress: Progress) -> None:
        """Now and then, several times a second."""
