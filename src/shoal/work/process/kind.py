"""What others know of processing records: its result, what it came to, and how that is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.errors import NotFound
from shoal.model import RunState
from shoal.work.kind import Excerpt, Extra, Kind, workload_of

if TYPE_CHECKING:
    from shoal.cluster.containers.spark_application import SparkWork
    from shoal.spec import Workload
    from shoal.spec.process import Process
    from shoal.store import RunInfo, RunStore
    from shoal.work.pages import Page
    from shoal.work.process.job import ProcessJob
    from shoal.work.process.jobs.base import Job
    from shoal.work.process.result_place import ResultPlace

COMPARED = ("bytes_per_second", "records_per_second")
"""What people compare runs by first."""


class ProcessKind(Kind):
    """Its result is a file of rows. Items are ranges of the input, so people count records."""

    noun = "process"
    unit = "record"
    counted_by = ("records", "errors")
    has_output = True
    code = "job"
    extras: Mapping[str, Extra] = {
        "fastwarc": Extra("fastwarc", "web archives", "process"),
        "resiliparse": Extra("resiliparse", "text and charsets of web pages", "process"),
        "pyspark": Extra("pyspark", "backend: spark, which also needs Java", "spark"),
    }

    def samples(self) -> Mapping[str, str]:
        from shoal.work.process.samples import SAMPLES

        return SAMPLES

    def prepare(self, spec: Workload, *, limit: int | None = None) -> ProcessJob:
        from shoal.work.process.job import prepare

        return prepare(_as_process(spec), limit=limit)

    def written_to(self, spec: Workload, folder: str) -> list[str]:
        name = _as_process(spec).output.path.rstrip("/").rpartition("/")[2]
        return [f"output={json.dumps({'path': f'{folder}/{name}'})}"]

    def spark_work(self, spec: Workload) -> SparkWork:
        from shoal.work.process.spark_job import spark_work

        return spark_work(_as_process(spec))

    # Results.

    def rows(self, store: RunStore, limit: int | None = None) -> Iterator[dict[str, Any]]:
        from shoal.work.process.result_file import rows

        return rows(self._written(store), limit, self._numbers(store), _job(store))

    def rows_of(self, store: RunStore, item: str) -> Iterator[dict[str, Any]]:
        """What was found in the ranges of one map item, before it was merged with the others."""
        yield store.row(item)

    def table(self, store: RunStore) -> Any:
        from shoal.work.process.result_file import table

        return table(self._written(store), self._numbers(store), _job(store))

    def _numbers(self, store: RunStore) -> Sequence[str]:
        """The columns of numbers."""
        numbers: Sequence[str] = (self.document(store) or {}).get("numbers", ())
        return numbers

    def missing(self, store: RunStore) -> str | None:
        written, there = (self.document(store) or {}).get("result"), _place(store).mark()
        if not written or there == written:
            return None
        path = _as_process(workload_of(store)).output.path
        what = "was written again since: this is the later content" if there else "is gone"
        return f"{path}, which {store.run} wrote, {what}. Run the workload again to make it anew."

    def _written(self, store: RunStore) -> ResultPlace:
        """Where the result is. `NotFound` where the run has none: what is there is that of an earlier run."""
        if not (self.document(store) or {}).get("result"):
            raise NotFound(f"{store.run} has no result: it is written when all records were read.")
        return _place(store)

    def leftovers(self, store: RunStore) -> Callable[[], None]:
        place = _place(store)
        return (lambda: None) if store.info().state == RunState.SUCCEEDED else lambda: place.clear()

    # What is said of a run.

    def in_words(self, document: Mapping[str, Any]) -> list[str]:
        from shoal.work.process.summary import in_words

        return in_words(document)

    def measures(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        phases = {f"{phase}_s": spent for phase, spent in document.get("phase_seconds", {}).items()}
        numbers = {**super().measures(document, seconds), **phases}
        first = {name: numbers[name] for name in COMPARED if name in numbers}
        return {**first, **numbers}

    def counts(self, items: Mapping[str, int], document: Mapping[str, Any]) -> str:
        """`812 rows of 60,000 records`, and the items that are not simply done."""
        done = [
            f"{words.some(document.get('rows', 0), 'row')} of {words.some(document.get('records', 0), 'record')}"
        ]
        if document.get("errors"):
            done.append(words.some(document["errors"], "error"))
        others = words.counts({state: count for state, count in items.items() if state != "done"})
        return ", ".join([*done, f"items {others}"] if others else done)

    def excerpt(self, store: RunStore) -> Excerpt:
        document = self.document(store) or {}
        after = self.in_words(document) if document else []
        top = _as_process(workload_of(store)).top
        try:
            rows = list(self.rows(store, top + 1))
        except NotFound as error:
            return Excerpt((), (), before=[str(error)], after=after)
        gone = self.missing(store)
        before = [f"Note: {gone}"] if gone is not None else ()
        which = f"the first {top} of {document.get('rows', 0):,} rows" if len(rows) > top else ""
        return Excerpt(list(rows[0]) if rows else (), rows[:top], which, before=before, after=after)

    def page(self, store: RunStore, info: RunInfo) -> Page:
        from shoal.work.process.page import page

        return page(self, store, info, self.document(store))


KIND = ProcessKind("process")


def _place(store: RunStore) -> ResultPlace:
    from shoal.work.process.result_place import ResultPlace

    spec = _as_process(workload_of(store))
    return ResultPlace(spec.output, spec.folder, store.run)


def _job(store: RunStore) -> Job | None:
    """What it counts; None for a job of the user's, whose code is for workers."""
    from shoal.work.process.jobs import built_in

    choice = _as_process(workload_of(store)).job
    return None if choice.function is not None else built_in(str(choice.name), choice.options)


def _as_process(spec: Workload) -> Process:
    from shoal.spec.process import Process

    assert isinstance(spec, Process)
    return spec
