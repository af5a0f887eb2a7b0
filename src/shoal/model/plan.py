"""The decisions for one workload on one cluster, each with its reason; and what earlier runs measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NOISE = 0.15
"""How much the same item differs from one time to the next, as a share of its duration."""


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


class MadeFor(NamedTuple):
    """What a plan was made for. A run that follows it has to be of the same."""

    workload: Mapping[str, Any]
    """`file` (a digest of the workload file), `sets` and `limit`."""
    inputs: str | None
    """Digest of the table, or of the inputs that are there; None where they could not be looked at."""
    nodes: Mapping[str, Mapping[str, Any]]
    """By host: `cpu`, `memory_bytes`, `gpu` and `labels`."""


class Plan(NamedTuple):
    """`workers_by_node` and `settings` bind a run that follows the plan; the rest says what is expected, and why."""

    kind: str
    name: str
    items: int | None
    workers: int
    predicted_seconds: Prediction | None
    decisions: tuple[Decision, ...] = ()
    placements: tuple[ItemPlacement, ...] = ()
    workers_by_node: Mapping[str, int] = {}
    """Most workers on each node, by host."""
    settings: Mapping[str, Any] = {}
    """What would otherwise be found out, by the key of the workload that pins it; None where it is left open."""
    made_for: MadeFor | None = None

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
            "workers_by_node": dict(self.workers_by_node),
            "settings": dict(self.settings),
            "made_for": self.made_for._asdict() if self.made_for else None,
        }


class Profile(NamedTuple):
    """Durations of items that were done. `measured` is how many stand behind the mean and the variance."""

    fingerprint: str
    node_kind: str
    measured: int
    mean_s: float
    variance_s2: float
    startup_s: float | None = None
    """What a worker took until it was ready."""
    seconds: Mapping[str, float] = {}
    """By the content of the item; a bounded number of them, the newest."""

    @property
    def noise_s(self) -> float:
        """How far one item may lie from what is expected of it: little where that very item was measured."""
        return NOISE * self.mean_s if self.seconds else self.variance_s2**0.5
