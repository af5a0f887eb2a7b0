"""What a pool is given: lanes, sources of items, guides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from shoal.model import Factory, Item, Need, Outcome
from shoal.model.item import HIDDEN
from shoal.shape.base import Policy

COMPANION = f"{HIDDEN}companion"
"""The facts of a worker's companion, among the parameters of the items that it is handed. Not recorded."""


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
    """Tunes a running pool, for kinds that do: busy workers, advice for each hand-out. Called from the pool's loop."""

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


class Companion(NamedTuple):
    """A worker that others of its node use, such as one that owns a GPU. It is given no items.

    What it says of itself (its facts) comes to its users with each item, as the parameter `COMPANION`.
    """

    factory: Factory
    need: Need
    users: int | None = None
    """Most workers that one of them serves; None: all of its node."""


class Lane(NamedTuple):
    """One sort of worker in a pool, and the rules for the items that go to it."""

    factory: Factory
    need: Need
    policy: Policy = Policy()
    guide: Guide | None = None
    companion: Companion | None = None
