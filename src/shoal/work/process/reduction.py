"""From partials to the result, within bounded memory: tables that are sorted by key are merged, finished and ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from shoal.work.process.jobs.base import (
    Job,
    Pair,
    columns,
    finishes,
    is_rows,
    is_sum,
    partial_columns,
    partial_key,
)
from shoal.work.process.partials import schema_of, table_of
from shoal.work.process.scratch import Scratch

MEMORY_BYTES = 96 * 1024 * 1024
_SOURCES = 64
"""How many sources are merged at once; of more, some are merged to a run first."""
_ROWS = 16 * 1024


def reduced(
    job: Job, sources: Sequence[Iterator[Any]], scratch: Scratch, memory_bytes: int = MEMORY_BYTES
) -> Iterator[Any]:
    """The result as tables, from the tables of partials: sorted by the first value, falling, then by key.

    Rows of a job without keys keep their order: that of the sources.
    """
    if is_rows(job):
        for source in sources:
            yield from source
    else:
        half = memory_bytes // 2
        yield from ranked(job, finished(job, merged(job, sources, scratch, half)), scratch, half)


def merged(job: Job, sources: Sequence[Iterator[Any]], scratch: Scratch, memory_bytes: int) -> Iterator[Any]:
    """One sequence of tables, sorted by key and each key once, from several such."""
    schema = schema_of(partial_columns(job))
    while len(sources) > _SOURCES:
        groups = [sources[start : start + _SOURCES] for start in range(0, len(sources), _SOURCES)]
        sources = [scratch.keep(schema, merged(job, each, scratch, memory_bytes)) for each in groups]
    share = memory_bytes // 4 // max(1, len(sources))
    runs = [_Run(source, partial_key(job), share) for source in sources]
    while runs := [run for run in runs if run.fill()]:
        bound = min((run.last() for run in runs if not run.is_over), default=None)
        yield combined(job, _concat([run.taken(bound) for run in runs]))


class _Run:
    """A sorted source of which the next rows are held."""

    def __init__(self, source: Iterator[Any], keys: Sequence[str], share_bytes: int) -> None:
        self._source, self._keys, self._share_bytes = source, keys, share_bytes
        self._held: list[Any] = []
        self.is_over = False

    def fill(self) -> bool:
        """Hold as much as is this one's share, at least one table; whether there is anything."""
        size = sum(table.nbytes for table in self._held)
        while not self.is_over and (not self._held or size < self._share_bytes):
            table = next(self._source, None)
            if table is None:
                self.is_over = True
            elif table.num_rows:
                self._held.append(table)
                size += table.nbytes
        return bool(self._held)

    def last(self) -> tuple[str, ...]:
        return self._key(self._held[-1], -1)

    def taken(self, bound: tuple[str, ...] | None) -> Any:
        """The rows up to this key, all of them without one; they are held no more."""
        if bound is None:
            taken, self._held = self._held, []
            return _concat(taken)
        whole = 0
        while whole < len(self._held) and self._key(self._held[whole], -1) <= bound:
            whole += 1
        taken, self._held = self._held[:whole], self._held[whole:]
        if self._held:
            first = self._held[0]
            rows = self._rows_up_to(first, bound)
            taken.append(first.slice(0, rows))
            self._held[0] = first.slice(rows)
        return _concat(taken)

    def _rows_up_to(self, table: Any, bound: tuple[str, ...]) -> int:
        low, high = 0, table.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._key(table, middle) <= bound:
                low = middle + 1
            else:
                high = middle
        return low

    def _key(self, table: Any, row: int) -> tuple[str, ...]:
        """Python orders texts as UTF-8 does, and so as Arrow."""
        return tuple(table.column(name)[row].as_py() for name in self._keys)


def combined(job: Job, table: Any) -> Any:
    """The rows sorted by key, each key once."""
    return by_key(job, summed(job, table) if is_sum(job) else _folded_table(job, table))


def by_key(job: Job, table: Any) -> Any:
    """The rows sorted by key."""
    return table.take(_sort_indices(table, [(name, "ascending") for name in partial_key(job)]))


def summed(job: Job, table: Any) -> Any:
    """The sums of each key, in no order."""
    keys = list(partial_key(job))
    names = [name for name in partial_columns(job) if name not in keys]
    grouped = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in names])
    return grouped.select([*keys, *(f"{name}_sum" for name in names)]).rename_columns([*keys, *names])


def folded(job: Job, values: dict[Any, Any], pairs: Iterable[Pair]) -> dict[Any, Any]:
    """The values with these pairs combined into them."""
    for key, value in pairs:
        values[key] = job.combine(values[key], value) if key in values else value
    return values


def _folded_table(job: Job, table: Any) -> Any:
    values = folded(job, {}, pairs_of(job, iter([table])))
    return table if len(values) == table.num_rows else mapping_table(job, values)


def mapping_table(job: Job, values: Mapping[Any, Any]) -> Any:
    """The values of keys as a table."""
    names, width = partial_columns(job), len(partial_key(job))
    if not values:
        return table_of(names, [()] * len(names))
    keys = [values.keys()] if width == 1 else [*zip(*values.keys(), strict=True)]
    others = [values.values()] if len(names) - width == 1 else [*zip(*values.values(), strict=True)]
    return table_of(names, [*keys, *others])


def pairs_of(job: Job, tables: Iterator[Any]) -> Iterator[Pair]:
    """The rows as a job has them: a key or a value is a tuple where there are several columns of it."""
    width = len(partial_key(job))
    for table in tables:
        lists = [column.to_pylist() for column in table.columns]
        keys = lists[0] if width == 1 else zip(*lists[:width], strict=True)
        values = lists[-1] if len(lists) - width == 1 else zip(*lists[width:], strict=True)
        yield from zip(keys, values, strict=True)


def finished(job: Job, tables: Iterator[Any]) -> Iterator[Any]:
    """The rows of the result, still sorted by key."""
    if not finishes(job):
        yield from tables
        return
    rows = job.finish(pairs_of(job, tables))
    while some := [*islice(rows, _ROWS)]:
        yield table_of(columns(job), [*zip(*some, strict=True)])


def ranked(job: Job, tables: Iterable[Any], scratch: Scratch, memory_bytes: int) -> Iterator[Any]:
    """The rows sorted by the first value, falling. Those with the same value keep their order."""
    value = next(iter(job.values))
    runs: list[Iterator[Any]] = []
    held: list[Any] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size > memory_bytes // 3:
            runs.append(scratch.keep(table.schema, [_ranked(_concat(held), value)]))
            held, size = [], 0
    last = _ranked(_concat(held), value) if held else None
    if runs:
        yield from merged_ranks(job, [*runs, iter([] if last is None else [last])])
    elif last is not None:
        yield last


def _ranked(table: Any, value: str) -> Any:
    return table.take(_sort_indices(table, [(value, "descending")]))


def merged_ranks(job: Job, sources: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """One ranked sequence of several, as those of spans of keys, in the order of these.

    Of equal values, those of an earlier source come first.
    """
    value = next(iter(job.values))
    runs = [_Ranking(source, value) for source in sources]
    while live := [run for run in runs if run.fill()]:
        bound = max(run.last() for run in live)
        above = _concat([run.above(bound) for run in live])
        if above.num_rows:
            yield _ranked(above, value)
        for run in live:
            yield from run.equal(bound)
            if bound != bound:  # Not a number: nothing is equal to it, and only more of it comes after it.
                yield from run.rest()


class _Ranking:
    """A ranked source of which the next table is held."""

    def __init__(self, source: Iterator[Any], value: str) -> None:
        self._source, self._value = source, value
        self._table: Any = None

    def fill(self) -> bool:
        while self._table is None or not self._table.num_rows:
            self._table = next(self._source, None)
            if self._table is None:
                return False
        return True

    def last(self) -> Any:
        return self._table.column(self._value)[-1].as_py()

    def above(self, bound: Any) -> Any:
        """The rows of the table that is held with a greater value; they are held no more."""
        from pyarrow import compute

        return self._taken(compute.greater(self._table.column(self._value), bound))

    def equal(self, bound: Any) -> Iterator[Any]:
        """The rows with this value, of the table that is held and of those that follow."""
        from pyarrow import compute

        while self.fill():
            table = self._taken(compute.equal(self._table.column(self._value), bound))
            if table.num_rows:
                yield table
            if self._table.num_rows:
                return

    def rest(self) -> Iterator[Any]:
        """All that there is."""
        while self.fill():
            yield self._table
            self._table = None

    def _taken(self, mask: Any) -> Any:
        """The first rows, as many as are true in the mask."""
        from pyarrow import compute

        rows = compute.sum(mask, min_count=0).as_py()
        taken, self._table = self._table.slice(0, rows), self._table.slice(rows)
        return taken


def _concat(tables: Sequence[Any]) -> Any:
    import pyarrow

    return pyarrow.concat_tables(tables)


def _sort_indices(table: Any, order: Sequence[tuple[str, str]]) -> Any:
    from pyarrow import compute

    return compute.sort_indices(table, sort_keys=order)
