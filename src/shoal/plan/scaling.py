"""How many more nodes are worth starting: what a start costs against what it saves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.model import Decision, Plan, Prediction
from shoal.units import format_seconds


class Spare(NamedTuple):
    """A node that could be started."""

    host: str
    slots: int
    """Workers that it has room for."""
    start_s: float
    """What its start will take, as far as is known."""


class Growth(NamedTuple):
    """A node that should be started, and why."""

    host: str
    why: str
    saved_s: float


def saved_s(left_s: float, workers: int, spare: Spare) -> float:
    """Seconds by which the work ends earlier when the node is started now; it helps only once it is up."""
    if left_s <= spare.start_s:
        return 0.0
    after = spare.start_s + (left_s - spare.start_s) * workers / (workers + spare.slots)
    return left_s - after


def grow(left_s: float, workers: int, spares: Sequence[Spare], most: int) -> list[Growth]:
    """The nodes to start now, at most so many: each as long as it saves more than its own start takes.

    `left_s` is how long the rest takes on `workers` workers, those that are coming up among them.
    """
    growths: list[Growth] = []
    workers = max(1, workers)
    for spare in spares:
        saved = saved_s(left_s, workers, spare)
        if len(growths) >= most or saved <= spare.start_s:
            break
        why = (
            f"{format_seconds(left_s)} of work are left for {workers} worker{'' if workers == 1 else 's'}; "
            f"it saves {format_seconds(saved)}, its start takes {format_seconds(spare.start_s)}"
        )
        growths.append(Growth(spare.host, why, saved))
        left_s -= saved
        workers += spare.slots
    return growths


def grown(plan: Plan, spares: Sequence[Spare], most: int) -> Plan:
    """A plan for the nodes that are there at first, as it will be with those that are worth starting."""
    predicted = plan.predicted_seconds
    if predicted is None:
        why = f"{plan.workers} at first; up to {most} more nodes are started when it is known that it pays"
        return plan._replace(decisions=(*plan.decisions, Decision("scale", None, why)))
    growths = grow(predicted.mid, plan.workers, spares, most)
    saved = sum(growth.saved_s for growth in growths) / predicted.mid if growths else 0.0
    why = growths[-1].why if growths else "no further node saves more than its start takes"
    chosen = ", ".join(growth.host for growth in growths) or "no more nodes"
    return plan._replace(
        predicted_seconds=Prediction(*(seconds * (1 - saved) for seconds in predicted)),
        decisions=(*plan.decisions, Decision("scale", chosen, why)),
    )
