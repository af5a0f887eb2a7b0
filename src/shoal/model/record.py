"""What a run records beside its items: earlier attempts, events with their reasons, its sessions, and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.kinds import workloads
from shoal.model.item import LogSlice

NODE = "node "
"""Before the name of a node, as the subject of an event."""
WORKER = "worker "
"""Before the number of a worker, likewise."""
EXIT_CODES = {"succeeded": 0, "failed": 1, "stopped": 3, "interrupted": 1, "running": 0, "queued": 0}
CLUSTER = "cluster"
"""The subject of an event of no node in particular."""


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
    """What it happened to, with its kind: `node NAME`, `worker NUMBER on NAME`."""
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


class Summary(NamedTuple):
    run: str
    kind: str
    state: str
    items: Mapping[str, int]
    seconds: float
    predicted_seconds: Mapping[str, float] | None
    results: str
    best: Mapping[str, Any] | None
    folder: str
    workers: Sequence[WorkerUse] = ()
    notes: Sequence[str] = ()
    details: Mapping[str, Any] | None = None
    """What the kind says of it: of an inference rows, errors, throughput, seconds by phase, what was chosen. Also there
    under the name of the kind, as in the JSON form: `record.infer`."""

    def __getattr__(self, name: str) -> Mapping[str, Any] | None:
        if name not in workloads():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.details if name == self.kind else None

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]

    def document(self) -> dict[str, Any]:
        """The JSON form. Fields may be added, never renamed."""
        document = self._asdict()
        document["items"] = {
            state: self.items.get(state, 0)
            for state in ("done", "failed", "cached", "pruned", "stopped", "waiting", "running")
        }
        document["workers"] = [use._asdict() for use in self.workers]
        document["notes"] = list(self.notes)
        if (details := document.pop("details")) is not None:
            document[self.kind] = details
        return document
