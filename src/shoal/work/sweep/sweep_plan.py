"""The plan of a sweep: how many workers, in which order, how long, and a sentence of why for each."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from shoal.engine import room
from shoal.model import Decision, ItemPlacement, Node, Plan, Prediction
from shoal.model.profile import Profile
from shoal.planner.chunks import HORIZON_S
from shoal.planner.prediction import interval, predict
from shoal.units import format_seconds
from shoal.work.sweep.items import content_of, item_id

if TYPE_CHECKING:
    from shoal.work.sweep.job import SweepJob

MOST_LOOKED_AT = 20_000
"""Rows whose own durations are looked up; for the rest the mean stands in."""
MOST_SCHEDULED = 1_000_000
"""Trials whose schedule is worked out; beyond, it is their sum over the workers."""
MOST_PLACED = 1000


def plan(job: SweepJob, nodes: Sequence[Node], profile: Profile | None) -> Plan:
    total, capacity = job.total(), room.capacity(job.need, nodes)
    workers = min(capacity, job.policy.concurrent or capacity, total or capacity)
    durations = expected_durations(job, profile)
    prediction = _predict(durations, total, workers, profile)
    fitting_ones = [node for node in nodes if job.need.refusal(node) is None]
    decisions = (
        Decision("workers", workers, _why_workers(job, fitting_ones, capacity, total)),
        *_alone(job),
        *_left_out(job, nodes),
        _order(job, profile),
        _chunks(profile),
        *_search(job),
        _prediction(profile, prediction),
    )
    placements = _placements(job, fitting_ones, durations, workers) if durations else ()
    return Plan(job.kind, job.name, total, workers, prediction, decisions, placements)


def expected_durations(job: SweepJob, profile: Profile | None) -> list[float]:
    """Seconds of each trial in order, as far as anything is known; empty when nothing is, or too many."""
    if profile is None or profile.measured == 0 or (job.total() or 0) > MOST_SCHEDULED:
        return []
    if job.rows is None:
        return [profile.mean_s] * (job.total() or 0)
    rows = islice(job.rows.all(), min(job.total() or 0, MOST_LOOKED_AT))
    found = [profile.seconds.get(content_of(job.columns, row), profile.mean_s) for row in rows]
    return found + [profile.mean_s] * ((job.total() or 0) - len(found))


def _predict(
    durations: Sequence[float], total: int | None, workers: int, profile: Profile | None
) -> Prediction | None:
    if profile is None or profile.measured == 0 or total is None:
        return None
    if not durations:
        middle = total * profile.mean_s / workers + (profile.startup_s or 0.0)
        return interval(middle, profile.noise_s, total, workers)
    return predict(durations, profile.noise_s, workers, profile.startup_s or 0.0)


def _why_workers(job: SweepJob, nodes: Sequence[Node], capacity: int, total: int | None) -> str:
    cpu = sum(node.cpu for node in nodes)
    where = nodes[0].host if len(nodes) == 1 else f"{len(nodes)} nodes"
    why = f"{where} with {cpu:g} CPU in all hold {capacity} workers of {job.need.cpu:g} CPU"
    if job.need.gpu:
        why += f" and {job.need.gpu} GPU"
    if job.policy.concurrent is not None and job.policy.concurrent < capacity:
        return why + f"; limits.concurrent allows {job.policy.concurrent}"
    if total is not None and total < capacity:
        return why + f"; there are only {total} trials"
    return why


def _alone(job: SweepJob) -> tuple[Decision, ...]:
    if not job.spec.whole_node:
        return ()
    why = f"each trial is a run of {job.spec.run.workload}, and two at once would measure each other"
    return (Decision("trials on a node", 1, why),)


def _left_out(job: SweepJob, nodes: Sequence[Node]) -> tuple[Decision, ...]:
    """The nodes that no worker fits on, and what each lacks."""
    refusals = {node.host: job.need.refusal(node) for node in nodes}
    left_out = {host: refusal for host, refusal in refusals.items() if refusal is not None}
    if not left_out:
        return ()
    return (Decision("left out", ", ".join(left_out), "; ".join(left_out.values())),)


def _order(job: SweepJob, profile: Profile | None) -> Decision:
    if job.rows is None:
        return Decision("order", "as the search asks", "each trial is chosen with the results known by then")
    if profile is not None and profile.seconds:
        why = f"durations of {len(profile.seconds)} trials are known from earlier runs; long ones must not come last"
        return Decision("order", "longest first", why)
    why = "nothing is known yet; as soon as trials have ended, those that look longest go first"
    return Decision("order", "as given, then longest first", why)


def _chunks(profile: Profile | None) -> Decision:
    if profile is None:
        return Decision("chunk", 1, "one trial at a time until it is known how long they take")
    if profile.mean_s >= HORIZON_S:
        return Decision(
            "chunk", 1, f"a trial takes about {format_seconds(profile.mean_s)}: handing out costs nothing"
        )
    size = max(1, int(HORIZON_S / max(profile.mean_s, 1e-5)))
    return Decision("chunk", size, f"about {HORIZON_S * 1000:.0f} ms of work at a time")


def _search(job: SweepJob) -> tuple[Decision, ...]:
    trials = job.spec.trials
    if trials.search is None:
        return ()
    return (
        Decision("sampler", trials.sampler, f"{trials.count} trials over {len(trials.search)} parameters"),
        Decision("pruner", trials.pruner, "acts on report(step=...)"),
    )


def _prediction(profile: Profile | None, prediction: Prediction | None) -> Decision:
    if profile is None or prediction is None:
        return Decision(
            "prediction", None, "this workload has not been run here before; run it, or add --probe"
        )
    why = f"{profile.measured} trials were measured before, {format_seconds(profile.mean_s)} each on average"
    return Decision("prediction", round(prediction.mid, 3), why)


def _placements(
    job: SweepJob, nodes: Sequence[Node], durations: Sequence[float], workers: int
) -> tuple[ItemPlacement, ...]:
    """Where each trial would run if every duration were exactly as expected."""
    if len(durations) > MOST_PLACED or workers == 0:
        return ()
    hosts = [node.host for node in nodes for _ in range(max(1, int(node.cpu // max(job.need.cpu, 1e-6))))][
        :workers
    ]
    slots = [(0.0, index) for index in range(len(hosts))]
    order = sorted(range(len(durations)), key=lambda index: -durations[index])
    placed: dict[int, ItemPlacement] = {}
    for index in order:
        start, slot = slots[0]
        heapq.heapreplace(slots, (start + durations[index], slot))
        why = f"its worker is the first to be free, {format_seconds(start)} after the start"
        placed[index] = ItemPlacement(item_id(index + 1), hosts[slot], why)
    return tuple(placed[index] for index in range(len(durations)))
