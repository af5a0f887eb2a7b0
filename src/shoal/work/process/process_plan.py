"""The plan of a process workload: how many workers and ranges, and how long it takes by the speed of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal import words
from shoal.engine import room
from shoal.errors import ShoalError
from shoal.model import Decision, Node, Plan, Prediction
from shoal.units import format_size
from shoal.work.job import Learned
from shoal.work.process.input_files import input_ranges
from shoal.work.process.summary import NODES

if TYPE_CHECKING:
    from shoal.work.process.job import ProcessJob

SPREAD = 0.2
"""How far a run may lie from what the speed of the last one predicts, as a share of it."""
START_S = 0.5


def plan(job: ProcessJob, nodes: Sequence[Node], learned: Learned) -> Plan:
    capacity = room.capacity(job.need, nodes)
    workers = min(capacity, job.policy.concurrent or capacity)
    try:
        files = input_ranges(job.spec.input, job.spec.folder, limit=job.limit)
    except ShoalError as error:
        return Plan(job.kind, job.name, None, workers, None, (Decision("input", None, str(error)),))
    size = sum(file.stop - file.start for file in files)
    rate = learned.get(NODES, {}).get("bytes_per_second")
    prediction = _prediction(size, rate, workers)
    decisions = (
        Decision("workers", workers, _why_workers(job, nodes, capacity)),
        Decision("input", format_size(size), words.some(len(files), "file")),
        Decision(
            "split",
            format_size(job.spec.input.split),
            "larger files are cut into ranges of at most this size, smaller where there would be too few for all",
        ),
        _why(prediction, rate),
    )
    return Plan(job.kind, job.name, None, workers, prediction, decisions)


def _why_workers(job: ProcessJob, nodes: Sequence[Node], capacity: int) -> str:
    where = f"{nodes[0].host} holds" if len(nodes) == 1 else f"{len(nodes)} nodes hold"
    why = f"{where} {words.some(capacity, 'worker')} of {job.need.cpu:g} CPU"
    concurrent = job.policy.concurrent
    return (
        why
        if concurrent is None or concurrent >= capacity
        else f"{why}; limits.concurrent allows {concurrent}"
    )


def _prediction(size: int, rate: float | None, workers: int) -> Prediction | None:
    if not rate or not workers:
        return None
    middle = START_S + size / rate / workers
    return Prediction(middle * (1 - SPREAD), middle, middle * (1 + SPREAD))


def _why(prediction: Prediction | None, rate: float | None) -> Decision:
    if prediction is None or rate is None:
        return Decision("prediction", None, "this job has not been run here before; run it once")
    return Decision(
        "prediction", round(prediction.mid, 3), f"a worker read {format_size(int(rate))} a second before"
    )
