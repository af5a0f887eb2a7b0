"""Partials: what one map item found, sorted by key, in a Parquet file that says which item it is of.

Also how columns become Arrow tables. How partials become one result is in `reduction`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from shoal.engine.workers.runner import Failed
from shoal.store.result_files import column
from shoal.work.process.jobs.base import TYPES, Job, columns, partial_columns, partial_key

METADATA = b"shoal"
"""Under this key, a partial says in JSON what it is."""
_GROUP_ROWS = 64 * 1024
_GROUP_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 16 * 1024
_BATCH_BYTES = 4 * 1024 * 1024


class Span(NamedTuple):
    """Keys from `low` to before `high`, by the first key column; None: no bound."""

    low: str | None = None
    high: str | None = None


EVERYTHING = Span()


def schema_of(names: Mapping[str, str]) -> Any:
    """The Arrow schema of columns with these names and types."""
    import pyarrow

    return pyarrow.schema([(name, pyarrow.type_for_alias(TYPES[kind])) for name, kind in names.items()])


def table_of(names: Mapping[str, str], values: Sequence[Collection[Any]]) -> Any:
    """An Arrow table of these columns. What UTF-8 cannot write (half of a surrogate pair) becomes a question mark."""
    import pyarrow

    schema = schema_of(names)
    arrays = [
        column(_writable(each) if kind == "text" else list(each), field.type)
        for each, kind, field in zip(values, names.values(), schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _writable(values: Collection[str | None]) -> list[str | None]:
    texts = list(values)
    try:
        "".join(filter(None, texts)).encode()
    except UnicodeEncodeError:
        return [text and text.encode("utf-8", "replace").decode() for text in texts]
    return texts


def write(
    file: BinaryIO, job: Job, tables: Iterable[Any], document: Mapping[str, Any], *, is_ranked: bool = False
) -> int:
    """Write a partial from tables that are sorted by key: how many rows it has.

    With `is_ranked` it is what a reduce item made of a span of keys: rows of the result, sorted as that is.
    """
    from pyarrow import parquet

    names = columns(job) if is_ranked else partial_columns(job)
    schema = schema_of(names).with_metadata({METADATA: json.dumps(document).encode()})
    keys, rows = [] if is_ranked else list(partial_key(job)), 0
    with parquet.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=False,
        write_statistics=keys[:1],
        column_encoding=dict.fromkeys(keys, "DELTA_BYTE_ARRAY"),
    ) as writer:
        for table in grouped(tables):
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=_GROUP_ROWS)
            rows += table.num_rows
    return rows


def grouped(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in fewer tables, each with enough for a group of rows in a file."""
    import pyarrow

    held: list[Any] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pyarrow.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pyarrow.concat_tables(held)


class Partial:
    """A partial that is there. `file` is for it alone, and stays open until all tables are read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """`name` is how messages call it. Raises `Failed` where it is no partial."""
        import pyarrow
        from pyarrow import parquet

        try:
            self._file = parquet.ParquetFile(file, pre_buffer=False)
            document = json.loads((self._file.metadata.metadata or {})[METADATA])
        except (pyarrow.ArrowException, KeyError, ValueError) as error:
            raise Failed(f"{name} is there already, and is no partial that Shoal wrote.") from error
        self.document: dict[str, Any] = document if isinstance(document, dict) else {}
        self.rows: int = self._file.metadata.num_rows

    def tables(self, span: Span = EVERYTHING) -> Iterator[Any]:
        """Its rows with keys in this span, sorted by key, a bounded number at a time."""
        import pyarrow

        groups = [group for group in range(self._file.num_row_groups) if self._may_have(group, span)]
        for batch in self._file.iter_batches(self._batch_rows(), row_groups=groups, use_threads=False):
            table = _within(pyarrow.Table.from_batches([batch]).replace_schema_metadata(), span)
            if table.num_rows:
                yield table

    def _batch_rows(self) -> int:
        metadata = self._file.metadata
        size: int = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES * self.rows // max(1, size)))

    def begins(self) -> Iterator[tuple[str, int]]:
        """The first key of each of its groups of rows, and how many rows that has."""
        for group in range(self._file.num_row_groups):
            low, _ = self._bounds(group)
            if low is not None:
                yield low, self._file.metadata.row_group(group).num_rows

    def _may_have(self, group: int, span: Span) -> bool:
        low, high = self._bounds(group)
        is_after = span.high is not None and low is not None and low >= span.high
        is_before = span.low is not None and high is not None and high < span.low
        return not is_after and not is_before

    def _bounds(self, group: int) -> tuple[str | None, str | None]:
        """The first and the last value of the first column; None where they are not known."""
        statistics = self._file.metadata.row_group(group).column(0).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        return statistics.min, statistics.max


def _within(table: Any, span: Span) -> Any:
    from pyarrow import compute

    if span.low is not None:
        table = table.filter(compute.greater_equal(table.column(0), span.low))
    if span.high is not None:
        table = table.filter(compute.less(table.column(0), span.high))
    return table


def spans(partials: Iterable[Partial], number: int) -> list[Span]:
    """At most so many spans that together have all keys, with about as many rows each."""
    begins = sorted(begin for partial in partials for begin in partial.begins())
    total, seen, cuts = sum(rows for _, rows in begins), 0, dict[str, None]()
    for key, rows in begins:
        if seen >= total * (len(cuts) + 1) / number and key not in cuts:
            cuts[key] = None
        seen += rows
    return [Span(*pair) for pair in zip((None, *cuts), (*cuts, None), strict=True)]
