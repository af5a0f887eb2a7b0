"""What a run records beside its items: earlier attempts, events with their reasons, and what a session leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.model.outcome import LogSlice

NODE = "node "
"""Before the name of a node, as the subject of an event."""


class Attempt(NamedTuple):
    """An attempt at an item after which the item waited again."""

    attempt: int
    """As in the events of an engine: also counts attempts that were handed out in vain."""
    counted: int
    """Which of the attempts that count against `retries` it was (`SHOAL_ATTEMPT`)."""
    node: str
    started: float | None
    seconds: float | None
    """None where nobody was left to measure it."""
    how: str
    """How it ended: an `ItemState` where the item itself ended, else the `LostCause` of its worker."""
    error: str | None
    log: LogSlice | None


class RunEvent(NamedTuple):
    """Something that happened to a run and has a reason: a node that was started, a restart, a move, a new plan."""

    at: float
    subject: str
    """What it happened to, with its kind: `node NAME`."""
    what: str
    why: str


class WorkerUse(NamedTuple):
    """Where one worker's time went."""

    worker: int
    node: str
    startup_s: float
    work_s: float
    idle_s: float
    items: int


class Kept(NamedTuple):
    """What the sessions of a run left for people to look at."""

    results: str | None = None
    """Where the results are; None where that is `results.csv` in the run's folder."""
    notes: Sequence[str] = ()
    """What people should know."""
    workers: Sequence[WorkerUse] = ()
    """Of the last session that ended."""
    document: Mapping[str, Any] | None = None
    """What the kind says of the run; None before it has said anything."""
    waits: str | None = None
    """What a session without a worker waits for, and behind whom."""

    @classmethod
    def read(cls, kind: str, values: Mapping[str, Any]) -> Kept:
        """From JSON values by name. The document is under the name of the kind."""
        workers = [WorkerUse(**use) for use in values.get("workers", ())]
        return cls(
            values.get("results"), values.get("notes", ()), workers, values.get(kind), values.get("waits")
        )

    def values(self, kind: str) -> dict[str, Any]:
        """As JSON values by name."""
        return {
            "results": self.results,
            "notes": list(self.notes),
            "workers": [use._asdict() for use in self.workers],
            kind: self.document,
            "waits": self.waits,
        }
