"""A sweep as a pool sees it: `prepare` turns a checked spec into a job that can be run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from shoal.errors import Problem, SpecError, several
from shoal.files.turns import Turn
from shoal.model import Factory, Item, Need, Node, Plan
from shoal.model.packages import Packages
from shoal.model.profile import Profile
from shoal.shape.base import Policy
from shoal.shape.pool import Source
from shoal.spec import Sweep
from shoal.work.digest import digest
from shoal.work.job import Conclusion, Learned, Past, PoolJob
from shoal.work.requirements import packages_of, read_requirements
from shoal.work.sweep.trial_rows import GridRows, Rows, RowSource, TableRows

FUNCTION_TRIAL = "shoal.work.sweep.trial:FunctionTrial"
COMMAND_TRIAL = "shoal.work.sweep.trial:CommandTrial"
WORKLOAD_TRIAL = "shoal.work.sweep.workload_trial:WorkloadTrial"


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
    problems += read_requirements(spec.requirements, spec.folder)[1]
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
        from shoal.work.sweep.imports import imports_of

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

    def source(self, past: Past) -> Source:
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
        return bool(self.source(past).take(1, 1))

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:
        from shoal.work.sweep.sweep_plan import plan

        return plan(self, nodes, profile)


def _factory(spec: Sweep, pickle: str | None) -> Factory:
    if spec.run.command is not None:
        arguments = {"command": spec.run.command, "metrics": dict(spec.metrics)}
        return Factory(COMMAND_TRIAL, arguments, dict(spec.env), spec.folder)
    if spec.run.workload is not None:
        return Factory(WORKLOAD_TRIAL, {"workload": spec.run.workload}, dict(spec.env), spec.folder)
    function = {} if pickle is not None else {"function": spec.run.function}
    return Factory(FUNCTION_TRIAL, function, dict(spec.env), spec.folder, blob=pickle or "")
