"""Counting within bounded memory: the records of one map item in, tables sorted by key out. For workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from shoal.work.inputs.places import one_line
from shoal.work.process.jobs.base import (
    Job,
    checked,
    is_rows,
    is_sum,
    partial_columns,
)
from shoal.work.process.partials import schema_of, table_of
from shoal.work.process.reduction import by_key, combined, folded, mapping_table, merged, summed
from shoal.work.process.scratch import Scratch
from shoal.work.protocols import Unreadable
from shoal.work.records.record import Record

MEMORY_BYTES = 64 * 1024 * 1024
_BATCH = 4 * 1024 * 1024
"""How much `map` may give before it is gathered: bytes, or elements of lists times `_ELEMENT_BYTES`."""
_BATCH_RECORDS = 2000
_ELEMENT_BYTES = 64
_PAIR_BYTES = 300
"""About what a key and its value take in a dict."""


class Counting:
    """The count of one map item. For one thread."""

    def __init__(self, job: Job, scratch: Scratch, memory_bytes: int = MEMORY_BYTES) -> None:
        self._job, self._scratch, self._memory_bytes = job, scratch, memory_bytes
        self._is_trusted = type(job).gather is not Job.gather
        self._found: list[Any] = []
        self._weight = 0
        self._schema = schema_of(partial_columns(job))
        self._runs: list[Iterator[Any]] = []
        self._held: _Held = _Rows(job) if is_rows(job) else _Sums(job) if is_sum(job) else _Folds(job)

    def add(self, record: Record) -> None:
        """Map a record. `Unreadable` where the job fails at it: then the record does not count."""
        job = self._job
        try:
            found: Any = job.map(record)
            if not self._is_trusted:
                found = checked(job, found)
        except Unreadable:
            raise
        except BaseException as error:  # Whatever a job does with a record, it costs that record.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise  # A panic of a library in Rust is no `Exception`.
            raise Unreadable(f"the job failed at it: {type(error).__name__}: {one_line(error)}") from error
        if found:
            self._found.append(found)
            self._weight += len(found) * (1 if isinstance(found, bytes) else _ELEMENT_BYTES)
            if self._weight > _BATCH or len(self._found) > _BATCH_RECORDS:
                self._gather()

    def tables(self) -> Iterator[Any]:
        """All that was counted, sorted by key (rows: in the order of the records). May be called once."""
        self._gather()
        last = self._held.taken()
        if is_rows(self._job):
            for run in self._runs:
                yield from run
            yield last
        elif self._runs:
            yield from merged(self._job, [*self._runs, iter([last])], self._scratch, self._memory_bytes)
        else:
            yield last

    def _gather(self) -> None:
        if self._found:
            found, self._found, self._weight = self._found, [], 0
            self._held.add(self._job.gather(found))
            if self._held.exceeds(self._memory_bytes // 2):
                self._runs.append(self._scratch.keep(self._schema, [self._held.taken()]))


class _Held(Protocol):
    """What was counted since the last run was put aside."""

    def add(self, gathered: Any) -> None: ...

    def exceeds(self, limit_bytes: int) -> bool:
        """Whether it takes so much memory that it should be put aside."""

    def taken(self) -> Any:
        """All of it as one table, sorted by key. Afterwards it is empty."""


class _Sums:
    """Sums, by Arrow."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tables: list[Any] = []
        self._size_bytes = 0
        self._is_summed = False

    def add(self, gathered: Any) -> None:
        table = gathered
        if not hasattr(gathered, "num_rows"):
            is_mapping = isinstance(gathered, Mapping)
            table = mapping_table(self._job, gathered if is_mapping else folded(self._job, {}, gathered))
        self._tables.append(table)
        self._size_bytes += table.nbytes
        self._is_summed = False

    def exceeds(self, limit_bytes: int) -> bool:
        """Also where it would soon do so again once equal keys are one."""
        if self._size_bytes <= limit_bytes:
            return False
        self._tables = [self._summed()]
        self._size_bytes = self._tables[0].nbytes
        self._is_summed = True
        return self._size_bytes > limit_bytes // 2

    def taken(self) -> Any:
        table = by_key(self._job, self._tables[0] if self._is_summed else self._summed())
        self._tables, self._size_bytes, self._is_summed = [], 0, False
        return table

    def _summed(self) -> Any:
        import pyarrow

        tables = self._tables or [mapping_table(self._job, {})]
        return summed(self._job, pyarrow.concat_tables(tables))


class _Folds:
    """Values that a `combine` of the job's own makes one of, in a dict."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._values: dict[Any, Any] = {}

    def add(self, gathered: Any) -> None:
        pairs = gathered.items() if isinstance(gathered, Mapping) else gathered
        folded(self._job, self._values, pairs)

    def exceeds(self, limit_bytes: int) -> bool:
        return len(self._values) * _PAIR_BYTES > limit_bytes

    def taken(self) -> Any:
        values, self._values = self._values, {}
        return combined(self._job, mapping_table(self._job, values))


class _Rows:
    """Rows of a job without keys."""

    def __init__(self, job: Job) -> None:
        self._columns = partial_columns(job)
        self._rows: list[tuple[Any, ...]] = []
        self._size_bytes = 0

    def add(self, gathered: Any) -> None:
        for row in gathered:
            self._rows.append(row)
            self._size_bytes += sum(len(value) if isinstance(value, str) else 8 for value in row)

    def exceeds(self, limit_bytes: int) -> bool:
        return self._size_bytes > limit_bytes

    def taken(self) -> Any:
        rows, self._rows, self._size_bytes = self._rows, [], 0
        return table_of(self._columns, [*zip(*rows, strict=True)] or [()] * len(self._columns))
