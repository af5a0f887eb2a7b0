"""How many more nodes are worth starting: what a start costs against what it saves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.model import Decision, Plan, Prediction
from shoal.planner.scalability import Usl
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


def saved_s(left_s: float, workers: int, spare: Spare, law: Usl | None = None) -> float:
    """Seconds by which the work ends earlier when the node is started now; it helps only once it is up.

    `law` says what workers do together, as it was measured; without it, twice as many do twice as much.
    """
    if left_s <= spare.start_s:
        return 0.0
    more = workers + spare.slots
    shrunk = workers / more if law is None else law.throughput(workers) / law.throughput(more)
    after = spare.start_s + (left_s - spare.start_s) * min(1.0, shrunk)
    return left_s - after


def grow(
    left_s: float, workers: int, spares: Sequence[Spare], most: int, law: Usl | None = None
) -> list[Growth]:
    """The nodes to start now, at most so many: each as long as it saves more than its own start takes.

    `left_s` is how long the rest takes on `workers` workers, those that are coming up among them. With a `law`, a
    node that would hardly raise the throughput is not started, either.
    """
    growths: list[Growth] = []
    workers = max(1, workers)
    for spare in spares:
        saved = saved_s(left_s, workers, spare, law)
        if len(growths) >= most or why_not(left_s, workers, spare, law) is not None:
            break
        why = (
            f"{format_seconds(left_s)} of work are left for {_workers(workers)}; "
            f"it saves {format_seconds(saved)}, its start takes {format_seconds(spare.start_s)}"
        )
        if law is not None:
            more = f"{_workers(workers + spare.slots)}"
            why += f"; as measured, {more} do {law.gain(workers, spare.slots):.0%} more than {workers}"
        growths.append(Growth(spare.host, why, saved))
        left_s -= saved
        workers += spare.slots
    return growths


def why_not(left_s: float, workers: int, spare: Spare, law: Usl | None = None) -> str | None:
    """Why this node is not worth starting now; None when it is."""
    workers = max(1, workers)
    if law is not None and not law.pays(workers, spare.slots):
        return (
            f"{spare.host} no longer pays: as measured, {_workers(workers + spare.slots)} would do "
            f"{law.throughput(workers + spare.slots):.3g}/s and {workers} do {law.throughput(workers):.3g}/s"
        )
    saved = saved_s(left_s, workers, spare, law)
    if saved <= spare.start_s:
        start = format_seconds(spare.start_s)
        return f"{spare.host} would save {format_seconds(saved)}, and its start takes {start}"
    return None


def grown(plan: Plan, spares: Sequence[Spare], most: int, law: Usl | None = None) -> Plan:
    """A plan for the nodes that are there at first, as it will be with those that are worth starting."""
    predicted = plan.predicted_seconds
    if predicted is None:
        why = f"{plan.workers} at first; up to {most} more nodes are started when it is known that it pays"
        return plan._replace(decisions=(*plan.decisions, Decision("scale", None, why)))
    growths = grow(predicted.mid, plan.workers, spares, most, law)
    saved = sum(growth.saved_s for growth in growths) / predicted.mid if growths else 0.0
    chosen = ", ".join(growth.host for growth in growths) or "no more nodes"
    return plan._replace(
        predicted_seconds=Prediction(*(seconds * (1 - saved) for seconds in predicted)),
        decisions=(*plan.decisions, Decision("scale", chosen, _why(plan, growths, spares, most, law))),
    )


def _why(plan: Plan, growths: Sequence[Growth], spares: Sequence[Spare], most: int, law: Usl | None) -> str:
    """Why so many and no more."""
    assert plan.predicted_seconds is not None
    if law is None or len(growths) >= min(most, len(spares)):
        return growths[-1].why if growths else "no further node saves more than its start takes"
    left_s = plan.predicted_seconds.mid - sum(growth.saved_s for growth in growths)
    workers = max(1, plan.workers) + sum(spare.slots for spare in spares[: len(growths)])
    refused = why_not(left_s, workers, spares[len(growths)], law)
    return "; ".join(filter(None, [growths[-1].why if growths else None, refused]))


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"
