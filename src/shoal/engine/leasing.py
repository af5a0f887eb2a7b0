"""Who may take what when several drivers share nodes: pure functions. Where claims are kept, engines know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.engine import fitting, shares
from shoal.model import Need, Node, Place

PATIENCE_S = 3.0
"""A run that holds nothing waits this long for others to give back; then it starts one worker all the same."""


class Claim(NamedTuple):
    """What one driver holds, and how much CPU it waits for beyond that."""

    places: tuple[Place, ...] = ()
    want_more: float = 0.0


def find(
    nodes: Sequence[Node], needs: Sequence[Need], mine: Claim, others: Mapping[str, Claim], waited_s: float
) -> list[tuple[str, tuple[str, ...]]] | None:
    """A host and devices for each need, if there is room and nobody else is owed it."""
    left = fitting.rooms(
        nodes, [*mine.places, *(place for claim in others.values() for place in claim.places)]
    )
    if not mine.places and waited_s >= PATIENCE_S:
        for room in left.values():
            room.cpu = room.node.cpu
        return fitting.fit(needs, left)
    wants, holds = _demand(mine, others)
    asked = sum(need.cpu for need in needs)
    if not shares.may_take(ME, asked, _total(nodes), wants, holds):
        return None
    return fitting.fit(needs, left)


def surplus(nodes: Sequence[Node], mine: Claim, others: Mapping[str, Claim]) -> float:
    """How much CPU others are owed of what this driver holds."""
    wants, holds = _demand(mine, others)
    return shares.surplus(ME, _total(nodes), wants, holds)


ME = ""
"""The name under which a driver stands beside the others here."""


def _demand(mine: Claim, others: Mapping[str, Claim]) -> tuple[dict[str, float], dict[str, float]]:
    claims = {**others, ME: mine}
    holds = {name: sum(place.need.cpu for place in claim.places) for name, claim in claims.items()}
    return {name: holds[name] + claim.want_more for name, claim in claims.items()}, holds


def _total(nodes: Sequence[Node]) -> float:
    return sum(node.cpu for node in nodes)
