"""A process workload as a pool sees it: `prepare` turns a checked spec into a job that can be run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from shoal.errors import several
from shoal.files import is_url
from shoal.files.turns import Turn
from shoal.model import Factory, Item, Need, Node, Plan
from shoal.model.item import digest
from shoal.model.node import Packages
from shoal.model.plan import Profile
from shoal.shape.base import Policy
from shoal.shape.pool import Guide, Source
from shoal.spec.process import SPARK, Process
from shoal.store import run_folder
from shoal.work.job import Conclusion, Learned, Past, PoolJob, packages_of, requirement_problems
from shoal.work.process.bad_records import BadRecords
from shoal.work.process.brought_partials import clear
from shoal.work.process.input_files import input_digest, input_ranges
from shoal.work.process.item_params import BYTES, is_map
from shoal.work.process.process_checks import check, ensure_output_is_ours
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.source import ProcessSource
from shoal.work.records.reader import ARCHIVES

RUNNER = "shoal.work.process.worker:ProcessRunner"


def prepare(spec: Process, *, limit: int | None = None) -> ProcessJob:
    """Check everything that can be known to be wrong, all at once."""
    problems = [*check(spec), *requirement_problems(spec)]
    if problems:
        raise several(problems)
    if spec.backend == SPARK:
        from shoal.work.process.spark_job import SparkJob

        return SparkJob(spec, limit)
    return ProcessJob(spec, limit)


class ProcessJob(PoolJob):
    """What a process workload asks of a pool. `limit` is how many map items there are at most."""

    kind = "process"

    def __init__(self, spec: Process, limit: int | None) -> None:
        self.spec = spec
        self.name = spec.name
        self.limit = limit
        resources, limits = spec.resources, spec.limits
        self.need = Need(
            cpu=float(resources.cpu),
            gpu=resources.gpu,
            memory_bytes=resources.memory_bytes or 0,
            labels=spec.placement.labels,
            node=spec.placement.node,
        )
        self.factory = Factory(RUNNER, {}, dict(spec.env), spec.folder)
        self.policy = Policy(
            retries=limits.retries,
            timeout_s=limits.timeout_s,
            concurrent=limits.concurrent,
            stop_after=limits.stop_after,
        )
        self.failures = limits.failures
        self._place = ResultPlace(spec.output, spec.folder, "")
        self._source: ProcessSource | None = None
        self._entries = BadRecords()
        """Of the input's indexes."""
        self._items = ""
        """The folder of what items left, on this machine."""
        self._is_brought = False
        """Whether partials come to this machine, as the nodes do not reach the folder of the result."""

    @cached_property
    def fingerprint(self) -> str:
        spec = self.spec
        job = (spec.job.name, spec.job.function, dict(spec.job.options))
        return digest(
            repr((self.kind, job, spec.input.format, vars(spec.filter), self.need.cpu, spec.backend))
        )

    @cached_property
    def packages(self) -> Packages:
        return packages_of(self.spec)

    def imports(self) -> Mapping[str, str]:
        key = f"input.{self.spec.input.key}"
        return dict.fromkeys(("fastwarc", "resiliparse"), key) if self.spec.input.format in ARCHIVES else {}

    def total(self) -> int | None:
        return None

    def fit(self, nodes: Sequence[Node], *, here: bool = True) -> None:
        self._is_brought = not here and not is_url(self.spec.output.path) and self.spec.job.function is None

    def inputs(self) -> str:
        return input_digest(self.spec.input, self.spec.folder, self.limit)

    def local_paths(self) -> Mapping[str, str]:
        spec = self.spec
        input_ = min(spec.input.targets, key=is_url)  # A path of this machine, if there is one.
        asked = {f"input.{spec.input.key}": input_}
        if not self._is_brought:
            asked["output"] = spec.output.path
        return {key: os.path.join(spec.folder, path) for key, path in asked.items() if not is_url(path)}

    # A session.

    def begin(self, run: str, home: str, *, resumed: bool) -> None:
        spec = self.spec
        self._place = ResultPlace(spec.output, spec.folder, run)
        self._place.storage.ensure_claims_hold()
        ensure_output_is_ours(spec, self._place)
        arguments = {
            "text": spec.source,
            "label": f"{spec.name}.yaml",
            "sets": list(spec.sets),
            "data": spec.folder,
            "run": run,
            "brought": self._is_brought,
        }
        self._items = os.path.join(run_folder(home, run), "items")
        self.factory = self.factory._replace(arguments=arguments)

    def source(self, past: Past, nodes: Callable[[], Sequence[Node]]) -> tuple[Source, Guide | None]:
        spec = self.spec
        self._entries = BadRecords()
        self._source = ProcessSource(
            input_ranges(spec.input, spec.folder, self._entries.note, limit=self.limit),
            spec.input.split,
            recorded=past.recorded,
            next_seq=past.next_seq,
            limit=self.limit,
            failures=self.failures,
            is_merged=not self._is_brought,
        )
        return self._source, None

    def has_more(self, past: Past) -> bool:
        return False

    def still_wanted(self, item: Item) -> bool:
        return True

    def weight(self) -> Callable[[Item], float] | None:
        return lambda item: float(item.params[BYTES]) if is_map(item.params) else 0.0

    def results(self) -> str:
        path = self.spec.output.path
        return path if is_url(path) else os.path.normpath(os.path.join(self.spec.folder, path))

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        from shoal.work.process.summary import conclude

        assert self._source is not None
        return conclude(
            self.spec,
            self._place,
            self._source,
            items,
            self._entries,
            seconds,
            turn,
            self._items if self._is_brought else None,
        )

    def tidy(self, turn: Turn) -> None:
        turn.ensure()
        if self._is_brought:
            clear(self._items)
        else:
            self._place.clear()

    def apart(self, mark: str) -> Sequence[str]:
        folder, _, name = self.spec.output.path.rpartition("/")
        path = f"{folder}/{mark}-{name}" if folder else f"{mark}-{name}"
        given = {"path": path, "endpoint": self.spec.output.endpoint}
        return [f"output={json.dumps({key: value for key, value in given.items() if value is not None})}"]

    def discard(self) -> None:
        for key in (self._place.name, self._place.all_errors_key):
            self._place.storage.delete(key)

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:
        from shoal.work.process.process_plan import plan

        return plan(self, nodes, learned or {})
