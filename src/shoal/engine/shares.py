"""How much each of several runs is owed of the same nodes: max-min fairness with weights, as pure functions.

What a run holds counts by its dominant resource: the largest part of all CPU, of all GPUs or of all memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.model import Need, Node

SLACK = 1e-6


class Amount(NamedTuple):
    """Of each resource."""

    cpu: float = 0.0
    gpu: float = 0.0
    memory_bytes: float = 0.0

    def plus(self, other: Need | Amount, sign: int = 1) -> Amount:
        return Amount(
            self.cpu + sign * other.cpu,
            self.gpu + sign * other.gpu,
            self.memory_bytes + sign * other.memory_bytes,
        )

    def part_of(self, total: Amount) -> float:
        """The largest part that this is of any resource."""
        return (
            max(mine / all_ for mine, all_ in zip(self, total, strict=True) if all_ > 0)
            if any(total)
            else 0.0
        )


def amount(needs: Iterable[Need | Node]) -> Amount:
    cpu = gpu = memory_bytes = 0.0
    for need in needs:
        cpu += need.cpu
        gpu += need.gpu
        memory_bytes += need.memory_bytes
    return Amount(cpu, gpu, memory_bytes)


def fair_shares(
    total: float,
    wants: Mapping[str, float],
    floors: Mapping[str, float] | None = None,
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """A level rises for all alike, by weight, until everything is given out: nobody gets more than wanted, nor less
    than its floor, which is what nobody can take away."""
    floors, weights = floors or {}, weights or {}
    weight = {name: weights.get(name, 1.0) for name in wants}
    floor = {name: min(floors.get(name, 0.0), wants[name]) for name in wants}
    edges = [(floor[name] / weight[name], weight[name]) for name in wants]
    edges += [(wants[name] / weight[name], -weight[name]) for name in wants]
    level = slope = 0.0
    left = total - sum(floor.values())
    for at, change in sorted(edges, key=lambda edge: edge[0]):
        if left <= 0 or slope * (at - level) >= left:
            break
        left -= slope * (at - level)
        level = at
        slope += change
    if left > 0 and slope > SLACK:
        level += left / slope
    return {name: min(wants[name], max(floor[name], level * weight[name])) for name in wants}
