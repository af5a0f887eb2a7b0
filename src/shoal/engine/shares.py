"""Who is owed how much when several runs want the same machine: max-min fairness, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping

SLACK = 1e-6


def fair_shares(total: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Nobody gets more than wanted; what one leaves over is split evenly among the others."""
    shares: dict[str, float] = {}
    left = total
    waiting = sorted(wants, key=lambda name: (wants[name], name))
    for position, name in enumerate(waiting):
        even = left / (len(waiting) - position)
        shares[name] = min(wants[name], even)
        left -= shares[name]
    return shares


def may_take(
    me: str, more: float, total: float, wants: Mapping[str, float], holds: Mapping[str, float]
) -> bool:
    """Whether taking `more` leaves every other run that waits its share.

    A run that holds nothing may always take its first worker where there is room.
    """
    mine = holds.get(me, 0.0)
    shares = fair_shares(total, wants)
    if mine <= SLACK or mine + more <= shares.get(me, 0.0) + SLACK:
        return True
    owed = sum(max(0.0, shares[name] - holds.get(name, 0.0)) for name in wants if name != me)
    free = total - sum(holds.values())
    return free - more >= owed - SLACK


def surplus(me: str, total: float, wants: Mapping[str, float], holds: Mapping[str, float]) -> float:
    """How much this run has to give back: what others lack, up to what it holds above its own share.

    The caller gives back whole workers that fit into it, so a run whose one worker is above its share keeps it.
    """
    shares = fair_shares(total, wants)
    free = max(0.0, total - sum(holds.values()))
    lacking = sum(max(0.0, shares[name] - holds.get(name, 0.0)) for name in wants if name != me) - free
    above = holds.get(me, 0.0) - shares.get(me, 0.0)
    return max(0.0, min(lacking, above))
