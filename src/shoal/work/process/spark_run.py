"""A process run on Spark: one item of a pool, whose runner has executors do what workers would have done.

Items and steps are those of any other run, and so are the partials and the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from shoal import spec as specs
from shoal.cluster.spark_context import opened, reason
from shoal.engine.workers.runner import Failed, Work, workload_folder
from shoal.engine.workers.worker import enter
from shoal.errors import ClusterError
from shoal.model import Item, ItemState, Outcome
from shoal.spec.process import Process, ProcessLimits
from shoal.work.process.input_files import input_ranges
from shoal.work.process.item_params import FACTS, STEP, is_map
from shoal.work.process.source import ProcessSource
from shoal.work.process.spark_job import INSIDE, NOTES
from shoal.work.process.steps import Steps

SUMMED = ("rows", "records", "errors")
BEAT_S = 0.5
"""So often it is asked whether anybody still wants the item."""
_ALL = 1 << 31


class End(NamedTuple):
    """What became of an item in an executor: its metrics, or the sentence of its failure."""

    seq: int
    metrics: Mapping[str, Any] = {}
    error: str | None = None


Execute: TypeAlias = Callable[[Sequence[Item]], Iterable[End]]


class SparkRunner:
    """A `Runner`. `limit` is how many map items there are at most; the other arguments are those of `Steps`."""

    def __init__(self, limit: int | None, **arguments: Any) -> None:
        self._limit, self._arguments = limit, arguments
        text, label, sets = (arguments[name] for name in ("text", "label", "sets"))
        found = specs.loads(text, folder=workload_folder(), label=label, sets=sets, kind="process")
        assert isinstance(found, Process)
        self._spec = found

    def run(self, work: Work) -> Mapping[str, Any]:
        spec = self._spec
        source = ProcessSource(
            input_ranges(spec.input, self._arguments["data"], limit=self._limit),
            spec.input.split,
            limit=self._limit,
            failures=spec.limits.failures,
        )
        try:
            with opened(master(spec), settings(spec), spec.env) as context:
                tasks = spec.spark.tasks or context.defaultParallelism
                execute = partial(_execute, context, self._arguments, lambda: work.report({}, None))
                return driven(source, execute, tasks, spec.limits)
        except ClusterError as error:
            raise Failed(f"{error} The item's log has all that Spark said.") from error


def master(spec: Process) -> str:
    """Spark's name of it: on this machine, with the number of threads and of tries of a task."""
    spark = spec.spark
    return f"local[{spark.tasks or '*'},{spec.limits.retries + 1}]" if spark.is_local else spark.master


def settings(spec: Process) -> dict[str, str]:
    """Spark's settings but for where it runs: those of the workload's `conf` decide."""
    spark = spec.spark
    memory = None if spark.memory_bytes is None else f"{max(1, spark.memory_bytes >> 20)}m"
    found: dict[str, Any] = {
        "spark.app.name": spec.name,
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": spec.limits.retries + 1,
    }
    if spark.is_local:
        found["spark.driver.memory"] = memory
    else:
        found["spark.executor.instances"] = spark.executors
        found["spark.executor.cores"] = spark.cores or (1 if spark.executors else None)
        found["spark.executor.memory"] = memory
        found["spark.cores.max"] = spark.tasks
    return {name: str(value) for name, value in found.items() if value is not None} | dict(spark.conf)


def driven(source: ProcessSource, execute: Execute, tasks: int, limits: ProcessLimits) -> dict[str, Any]:
    """Take all that the source has, and have it executed: metrics of the one item, with those of all inside.

    Raises `Failed` where more failed than may.
    """
    done: list[tuple[Item, Mapping[str, Any]]] = []
    errors: list[str] = []
    while items := source.take(_ALL, tasks):
        ends: dict[int, End] = {}
        left = list(items)
        for _ in range(limits.retries + 1):
            ends |= {end.seq: end for end in execute(left)}
            left = [item for item in left if ends[item.seq].error is not None]
            if not left:
                break
        for item in items:
            _, metrics, error = ends[item.seq]
            if error is None:
                done.append((item, metrics))
                source.ended(item, Outcome(ItemState.DONE, metrics))
            else:
                errors.append(f"{item.id}: {error}")
                source.ended(item, Outcome(ItemState.FAILED, error=error))
    if len(errors) > limits.failures:
        more = f" ({len(errors) - 1} more failed)" if len(errors) > 1 else ""
        raise Failed(f"{errors[0]}{more}")
    left_out = source.superseded()
    counted = [(item, metrics) for item, metrics in done if item.seq not in left_out]
    sums = {name: sum(metrics.get(name, 0) for _, metrics in counted) for name in SUMMED}
    notes = [*source.notes, *(f"a part of the input was left out: {error}" for error in errors)]
    return {**sums, INSIDE: [_plain(*each) for each in counted], NOTES: notes}


def _plain(item: Item, metrics: Mapping[str, Any]) -> list[Any]:
    """An item that is done, as `items_inside` reads it: without its ranges, and where they ended."""
    facts = {FACTS: {**metrics[FACTS], "extents": []}} if is_map(item.params) else {}
    return [item.seq, item.id, {STEP: item.params[STEP]}, item.content, {**metrics, **facts}]


# Executors.


def _execute(
    context: Any, arguments: Mapping[str, Any], beat: Callable[[], None], items: Sequence[Item]
) -> list[End]:
    """Have executors do these items, a task each. `beat` may raise: then the job of Spark is cancelled."""
    given = [(item.seq, dict(item.params)) for item in items]
    task = partial(_done, {**arguments, "sets": tuple(arguments["sets"])}, workload_folder())
    job = context.parallelize(given, len(given)).mapPartitions(task)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(job.collect)
        try:
            while not wait([future], BEAT_S).done:
                beat()
        except BaseException:
            context.cancelAllJobs()
            raise
    try:
        ends: list[End] = future.result()
    except Exception as error:
        why = reason(error)
        is_missing = why.startswith("ModuleNotFoundError")
        hint = "Executors need Shoal, and all that the job imports." if is_missing else "Resume it to go on."
        raise ClusterError(f"Spark gave the job up: {why}. {hint}") from error
    return ends


def _done(
    arguments: Mapping[str, Any], folder: str, items: Iterable[tuple[int, Mapping[str, Any]]]
) -> Iterator[End]:
    """In an executor: do items, one after the other."""
    for seq, params in items:
        try:
            yield End(seq, _steps(folder, **arguments).do(seq, params, lambda: None))
        except Failed as error:
            yield End(seq, error=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item that failed
            yield End(seq, error=f"{type(error).__name__}: {error}")


@cache
def _steps(folder: str, sets: tuple[str, ...], **arguments: Any) -> Steps:
    """Once a process, which Spark uses for many tasks. `folder` is the workload's, where this machine has it."""
    if os.path.isdir(folder):
        enter(folder)
    return Steps(sets=list(sets), **arguments)
