"""A sweep as a pool sees it: `prepare` turns a checked spec into a job; and its plan, with a reason for each line."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from shoal.engine import room
from shoal.errors import Problem, SpecError, several
from shoal.files.turns import Turn
from shoal.model import Decision, Factory, Item, ItemPlacement, Need, Node, Plan, Prediction
from shoal.model.item import digest
from shoal.model.node import Packages
from shoal.model.plan import Profile
from shoal.planner.durations import interval, predict
from shoal.shape.base import Policy
from shoal.shape.pool import Guide, Source
from shoal.shape.pool.queue import HORIZON_S
from shoal.spec import Sweep
from shoal.units import format_seconds
from shoal.work.job import Conclusion, Learned, Past, PoolJob, packages_of, requirement_problems
from shoal.work.sweep.trial_rows import GridRows, Rows, RowSource, TableRows, content_of, item_id

FUNCTION_TRIAL = "shoal.work.sweep.trial:FunctionTrial"
COMMAND_TRIAL = "shoal.work.sweep.trial:CommandTrial"
WORKLOAD_TRIAL = "shoal.work.sweep.workload_trial:WorkloadTrial"
MOST_LOOKED_AT = 20_000
"""Rows whose own durations are looked up; for the rest the mean stands in."""
MOST_SCHEDULED = 1_000_000
"""Trials whose schedule is worked out; beyond, it is their sum over the workers."""
MOST_PLACED = 1000


def prepare(spec: Sweep, *, limit: int | None = None, pickle: str | None = None) -> SweepJob:
    """Check everything that can be known to be wrong, all at once. `pickle` is a function sent by value."""
    from shoal.work.sweep.sweep_checks import check

    problems: list[Problem] = []
    rows: Rows | None = None
    columns: tuple[str, ...] | None = tuple(spec.trials.search or ())
    try:
        rows = _rows(spec)
        columns = rows.columns if rows is not None else columns
    except SpecError as error:
        problems += error.problems
        columns = None
    table = rows.once() if isinstance(rows, TableRows) else None
    problems += check(spec, columns, pickle, table)
    problems += requirement_problems(spec)
    if problems:
        raise several(problems)
    return SweepJob(spec, rows, limit, pickle)


def _rows(spec: Sweep) -> Rows | None:
    """The trials that are written down; None for a search."""
    trials = spec.trials
    if trials.table is not None:
        from shoal.work.tables.table import open_table

        return TableRows(open_table(os.path.join(spec.folder, trials.table)), trials.repeat)
    return GridRows(trials.grid, trials.repeat) if trials.grid is not None else None


class SweepJob(PoolJob):
    """What a sweep asks of a pool."""

    kind = "sweep"

    def __init__(self, spec: Sweep, rows: Rows | None, limit: int | None, pickle: str | None) -> None:
        self.spec = spec
        self.name = spec.name
        self.rows = rows
        self.limit = limit
        self.factory = _factory(spec, pickle)
        self.need = Need(
            cpu=float(spec.resources.cpu),
            gpu=spec.resources.gpu,
            memory_bytes=spec.resources.memory_bytes or 0,
            labels=spec.placement.labels,
            node=spec.placement.node,
        )
        self._asked = self.need
        limits = spec.limits
        self.policy = Policy(
            retries=limits.retries,
            timeout_s=limits.timeout_s,
            concurrent=limits.concurrent,
            stop_after=limits.stop_after,
        )
        self.failures = limits.failures
        self._pickled = pickle is not None
        self._contents: dict[str, int] | None = None

    @property
    def fingerprint(self) -> str:
        run = self.spec.run
        parts = (self.kind, run.command or run.workload, run.function, self.need.cpu, self.need.gpu)
        return digest(repr(parts))

    @cached_property
    def packages(self) -> Packages:
        return packages_of(self.spec)

    def imports(self) -> Mapping[str, str]:
        from shoal.work.sweep.sweep_checks import imports_of

        return imports_of(self.spec, self._pickled)

    def fit(self, nodes: Sequence[Node], *, here: bool = True) -> None:
        """A run of its own takes all that its machine has: on the largest nodes, and one at a time on each."""
        fitting = [node for node in nodes if self._asked.refusal(node) is None]
        if self.spec.whole_node and fitting:
            largest = max(fitting, key=lambda node: (node.cpu, node.gpu))
            self.need = self._asked._replace(cpu=largest.cpu, gpu=self._asked.gpu or largest.gpu)

    def inputs(self) -> str:
        return self.rows.digest() if isinstance(self.rows, TableRows) else ""

    def local_paths(self) -> Mapping[str, str]:
        """The folder of the workload travels to the nodes; a workload beside it does not."""
        inner = os.path.relpath(
            os.path.join(self.spec.folder, self.spec.run.workload or ""), self.spec.folder
        )
        outside = inner.split(os.sep)[0] == os.pardir
        return {"run.workload": os.path.join(self.spec.folder, inner)} if outside else {}

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        """What was repeated to be compared is shown as averages."""
        averaged = self.spec.run.workload is not None and self.spec.trials.repeat > 1
        return Conclusion(document={"average": True} if averaged else {})

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rows.columns if self.rows is not None else tuple(self.spec.trials.search or ())

    def total(self) -> int | None:
        count = self.rows.count if self.rows is not None else self.spec.trials.count or 0
        total = count * self.spec.trials.repeat
        return total if self.limit is None else min(total, self.limit)

    def source(self, past: Past, nodes: Callable[[], Sequence[Node]]) -> tuple[Source, Guide | None]:
        return self.trials(past), None

    def trials(self, past: Past) -> Source:
        """The trials that are not recorded yet."""
        if self.rows is not None:
            return RowSource(self.rows, past, self.limit)
        from shoal.work.sweep.search_trials import SearchSource

        return SearchSource(self.spec.trials, self.spec.objective, past, self.limit)

    def still_wanted(self, item: Item) -> bool:
        if self.rows is None:
            return True
        if self._contents is None:
            self._contents = self.rows.contents()
        return item.occurrence < self._contents.get(item.content, 0)

    def has_more(self, past: Past) -> bool:
        return bool(self.trials(past).take(1, 1))

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:

        return plan(self, nodes, profile)


def _factory(spec: Sweep, pickle: str | None) -> Factory:
    if spec.run.command is not None:
        arguments = {"command": spec.run.command, "metrics": dict(spec.metrics)}
        return Factory(COMMAND_TRIAL, arguments, dict(spec.env), spec.folder)
    if spec.run.workload is not None:
        return Factory(WORKLOAD_TRIAL, {"workload": spec.run.workload}, dict(spec.env), spec.folder)
    function = {} if pickle is not None else {"function": spec.run.function}
    return Factory(FUNCTION_TRIAL, function, dict(spec.env), spec.folder, blob=pickle or "")


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
