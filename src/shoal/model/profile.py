"""What earlier runs measured of a workload on a kind of node, for the next plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NOISE = 0.15
"""How much the same item differs from one time to the next, as a share of its duration."""


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
