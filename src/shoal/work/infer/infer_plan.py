"""The plan of an inference: what is known beforehand, what is found out while it runs, how long it takes, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.engine import room
from shoal.model import Decision, Node, Plan
from shoal.units import format_share
from shoal.work.infer.prediction import Outlook, groups_of, measured, outlook, recalled
from shoal.work.infer.tuners import machine_of
from shoal.work.job import Learned
from shoal.work.models.installed import WITH_CUDA

if TYPE_CHECKING:
    from shoal.work.infer.job import InferJob


def plan(job: InferJob, nodes: Sequence[Node], learned: Learned) -> Plan:
    capacity = room.capacity(job.need, nodes)
    usable = [node for node in nodes if job.need.refusal(node) is None]
    groups = groups_of(job, usable)
    known = measured(learned) & set(groups)
    found = outlook(job, groups, learned)
    decisions = (
        _places(job, usable, capacity),
        *_device(job, nodes),
        *(_tuned(job, usable, learned) if known else _to_tune(job)),
        Decision(
            "output", job.spec.output.path, "a Parquet part for each item, written once and never replaced"
        ),
        Decision("errors", format_share(job.spec.limits.errors), _why_errors(job)),
        _foretold(found),
    )
    return Plan(job.kind, job.name, None, capacity, found.prediction, decisions)


def _places(job: InferJob, nodes: Sequence[Node], capacity: int) -> Decision:
    """How many workers there may be; how many of them work at the same time is another question."""
    cpu = sum(node.cpu for node in nodes)
    where = f"{nodes[0].host} has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    each = f"{job.need.cpu:g} CPU" + (f" and {job.need.gpu:g} GPU" if job.need.gpu else "")
    return Decision("places", capacity, f"{where} {cpu:g} CPU in all; a worker holds {each}")


def _device(job: InferJob, nodes: Sequence[Node]) -> list[Decision]:
    """Said where a GPU stays idle, or may do so, and where a node does for want of one."""
    asked, library = job.spec.model.device, job.library
    with_gpu = [node.host for node in nodes if node.gpu]
    if not with_gpu or asked == "cpu" or job.spec.resources.gpu == 0:
        return []
    one = len(with_gpu) == 1
    told = [f"{with_gpu[0]} has a GPU" if one else f"{len(with_gpu)} nodes have GPUs"]
    if library is not None and job.on_processors():
        it = "it" if one else "them"
        told.append(f"the {library} that is installed cannot use {it}: install {WITH_CUDA[library]}")
        return [Decision("device", "cuda" if asked == "cuda" else "cpu", "; ".join(told))]
    if library is not None and not job.knows_packages:
        there = "what requirements: brings" if job.spec.requirements else "what is installed there"
        told.append(f"used if {there} can: that takes {WITH_CUDA[library]}")
    if job.need.gpu and len(with_gpu) < len(nodes):
        told.append("nodes without one get no work; with model.device: cpu all of them do")
    return [Decision("device", "cuda", "; ".join(told))] if told[1:] else []


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
        each = "each" if job.knows_packages else "each that workers have"
        why = f"{', '.join(ways)}: {each} is tried on the first inputs, and has to agree with the model as given"
    else:
        installed = (
            "that could run this model is installed" if job.knows_packages else "runs such a model there"
        )
        why = f"nothing else {installed}"
    why = "; ".join([why, *job.missing()])
    return [Decision("runtime", tune.runtime if len(ways) > 1 else ways[0], why), *found]


def _why(name: str, pinned: int | None) -> str:
    return (
        f"tune.{name} says so" if pinned is not None else "found out on the first inputs, while they are done"
    )


def _tuned(job: InferJob, nodes: Sequence[Node], learned: Learned) -> list[Decision]:
    tuning = recalled(job, nodes, learned)
    for node in nodes:
        tuning.active(node.host, machine_of(node, job.need).most_workers)
    return tuning.decisions()


def _why_errors(job: InferJob) -> str:
    if job.spec.limits.errors:
        return "so many inputs may be unreadable; above that the run counts as failed. They are in errors.parquet"
    return "an unreadable input makes the run count as failed; all others are done. limits.errors allows some"


def _foretold(found: Outlook) -> Decision:
    seconds = None if found.prediction is None else round(found.prediction.mid, 3)
    return Decision("prediction", seconds, "; ".join(filter(None, [found.why, found.advice])))
