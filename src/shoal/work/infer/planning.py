"""The plan of an inference: what is known beforehand, what is found out while it runs, how long it takes, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.files import pause
from shoal.model import Decision, Node, Plan, Prediction
from shoal.plan.tuning import Tuner
from shoal.units import format_share
from shoal.work.infer.tuning import Tuning, machine_of
from shoal.work.job import Learned, Past

if TYPE_CHECKING:
    from shoal.work.infer.job import InferJob

COUNT_S = 1.0
"""So long inputs are counted for a prediction; where there are more, none is made."""
LOOK_S = 0.01
SPREAD = 0.12
"""How far a run may lie from what is predicted from the last one, as a share of it."""


def plan(job: InferJob, nodes: Sequence[Node], capacity: int, learned: Learned) -> Plan:
    usable = [node for node in nodes if job.need.refusal(node) is None]
    known = {machine_of(node, job.need).kind for node in usable} & _measured(learned)
    prediction = _predict(job, usable, learned) if known else None
    decisions = (
        _places(job, usable, capacity),
        *(_tuned(job, usable, learned) if known else _to_tune(job)),
        Decision(
            "output", job.spec.output.path, "a Parquet part for each item, written once and never replaced"
        ),
        Decision("errors", format_share(job.spec.limits.errors), _why_errors(job)),
        _why_prediction(bool(known), prediction),
    )
    return Plan(job.kind, job.name, None, capacity, prediction, decisions)


def _measured(learned: Learned) -> set[str]:
    """The kinds of node on which an earlier run got as far as to measure something."""
    return {kind for kind, document in learned.items() if (document.get("chosen") or {}).get("rate")}


def _places(job: InferJob, nodes: Sequence[Node], capacity: int) -> Decision:
    """How many workers there may be; how many of them work at the same time is another question."""
    cpu = sum(node.cpu for node in nodes)
    where = f"{nodes[0].host} has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    each = f"{job.need.cpu:g} CPU" + (f" and {job.need.gpu:g} GPU" if job.need.gpu else "")
    return Decision("places", capacity, f"{where} {cpu:g} CPU in all; a worker holds {each}")


def _to_tune(job: InferJob) -> list[Decision]:
    tune, ways = job.spec.tune, job.runtimes()
    asked = {"batch": tune.batch, "threads": tune.threads, "workers": tune.workers}
    found = [
        Decision(name, pinned if pinned is not None else "auto", _why(name, pinned))
        for name, pinned in asked.items()
    ]
    if tune.runtime != "auto":
        why = "the workload says so"
    elif len(ways) > 1:
        why = (
            f"{', '.join(ways)}: each is tried on the first inputs, and has to agree with the model as given"
        )
    else:
        why = "nothing else that could run this model is installed"
    why = "; ".join([why, *job.missing()])
    return [Decision("runtime", tune.runtime if len(ways) > 1 else ways[0], why), *found]


def _why(name: str, pinned: int | None) -> str:
    return (
        f"tune.{name} says so" if pinned is not None else "found out on the first inputs, while they are done"
    )


def _tuned(job: InferJob, nodes: Sequence[Node], learned: Learned) -> list[Decision]:
    tuning = _recalled(job, nodes, learned)
    for node in nodes:
        tuning.active(node.host, machine_of(node, job.need).most_workers)
    return tuning.decisions()


def _recalled(job: InferJob, nodes: Sequence[Node], learned: Learned) -> Tuning:
    tuning = Tuning(job.spec.tune, job.runtimes(), job.need, learned, job.missing())
    tuning.nodes = lambda: nodes
    return tuning


def _predict(job: InferJob, nodes: Sequence[Node], learned: Learned) -> Prediction | None:
    """From the rate of the last run, where the inputs can be counted quickly."""
    count = _count(job)
    tuning = _recalled(job, nodes, learned)
    rates = []
    for node in nodes:
        tuner: Tuner = tuning.tuner_of(node.host)
        rates.append(tuner.rate())
    if count is None or not rates or None in rates:
        return None
    startup_s = max(float(document.get("startup_s", 0.0)) for document in learned.values())
    middle = startup_s + count / sum(rate for rate in rates if rate)
    wide = SPREAD * middle + 0.5
    return Prediction(max(0.0, middle - wide), middle, middle + wide)


def _count(job: InferJob) -> int | None:
    listing = job.list_inputs(Past())
    try:
        waited = 0.0
        while not listing.complete() and waited < COUNT_S:
            pause(LOOK_S)
            waited += LOOK_S
        return listing.found() if listing.complete() else None
    finally:
        listing.close()


def _why_errors(job: InferJob) -> str:
    if job.spec.limits.errors:
        return "so many inputs may be unreadable; above that the run counts as failed. They are in errors.parquet"
    return "an unreadable input makes the run count as failed; all others are done. limits.errors allows some"


def _why_prediction(known: bool, prediction: Prediction | None) -> Decision:
    if prediction is not None:
        return Decision(
            "prediction",
            round(prediction.mid, 3),
            "from the rate of the last run, the inputs there are, and what workers took to start",
        )
    if known:
        return Decision("prediction", None, f"the inputs could not be counted within {COUNT_S:g} s")
    return Decision("prediction", None, "this model has not been run here before, with inputs like these")
