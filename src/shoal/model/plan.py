"""The decisions for one workload on one cluster, each with its reason: a value to print, save, compare and replay."""

from __future__ import annotations

from typing import Any, NamedTuple


class Decision(NamedTuple):
    name: str
    choice: Any
    why: str


class ItemPlacement(NamedTuple):
    item: str
    node: str
    why: str


class Prediction(NamedTuple):
    """Seconds that a run will take: most likely, and the range it should fall into nine times out of ten."""

    low: float
    mid: float
    high: float


class Plan(NamedTuple):
    kind: str
    name: str
    items: int | None
    workers: int
    predicted_seconds: Prediction | None
    decisions: tuple[Decision, ...] = ()
    placements: tuple[ItemPlacement, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON form, as `shoal plan --json` prints it."""
        prediction = self.predicted_seconds
        return {
            "kind": self.kind,
            "name": self.name,
            "items": self.items,
            "workers": self.workers,
            "predicted_seconds": prediction._asdict() if prediction else None,
            "decisions": [decision._asdict() for decision in self.decisions],
            "placements": [placement._asdict() for placement in self.placements],
        }
