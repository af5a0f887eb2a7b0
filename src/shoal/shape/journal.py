"""What a shape tells the store as it goes. A protocol: `store` implements it, shapes only call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shoal.model import Item, LogSlice, Outcome
from shoal.model.record import Attempt


class Journal(Protocol):
    """The record of a run's items. Calls are buffered and cheap; nothing is durable until `commit` returns.

    One owner, one thread. What was not committed when the driver dies is lost, and the next driver redoes it.
    """

    def add(self, items: Sequence[Item]) -> None:
        """New items, waiting. Recorded before they are handed out."""

    def started(self, seq: int, attempt: int, node: str, at: float, log: LogSlice | None) -> None:
        """The item runs now."""

    def progressed(
        self, seq: int, attempt: int, at: float, metrics: Mapping[str, Any], step: int | None
    ) -> None:
        """The item reported something."""

    def requeued(
        self, seq: int, attempt: int, used: int, error: str | None, *, over: Attempt | None = None
    ) -> None:
        """An attempt is over without an end (a crash that is retried, a lost node): the item waits again.

        `over` is kept as one of its earlier attempts. None where the attempt never began.
        """

    def ended(self, seq: int, attempt: int, used: int, node: str, started: float, outcome: Outcome) -> None:
        """The item has its final state."""

    def noted(self, at: float, subject: str, what: str, why: str) -> None:
        """Something happened to the run as a whole: a `RunEvent`."""

    def commit(self) -> None:
        """Make everything told so far durable, or raise `StoreError`; then it may be called again.

        `TakenOver` where another driver has the run by now: nothing was recorded, and nothing ever will be.
        """

    def ensure_ours(self) -> None:
        """Raise `TakenOver` where another driver has the run by now. Cheap; called before items are handed out."""
