"""How a run ended, as a value: what `shoal run` prints, and what `--json` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.model.record import WorkerUse

EXIT_CODES = {"succeeded": 0, "failed": 1, "stopped": 3, "interrupted": 1, "running": 0, "queued": 0}


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
    infer: Mapping[str, Any] | None = None
    """Of an inference: rows, errors, throughput, seconds by phase, what was chosen."""

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
        if self.infer is None:
            del document["infer"]
        return document
