"""The result of a process run as a file, Parquet or CSV: written as its tables come, and read by whoever shows it."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TextIO

from shoal.errors import NotFound
from shoal.work.process.jobs.base import Job, columns
from shoal.work.process.partials import grouped, schema_of
from shoal.work.process.result_place import ResultPlace

_GROUP_ROWS = 128 * 1024


class Written(NamedTuple):
    """How many rows a file has, and the first of them."""

    rows: int
    top: list[dict[str, Any]]


def write_result(file: BinaryIO, file_format: str, job: Job, tables: Iterable[Any], top: int = 0) -> Written:
    """Write the tables to a file that stays open. CSV has a line of names, and quotes where they are needed."""
    schema = schema_of(columns(job))
    rows, first = 0, list[dict[str, Any]]()
    with _csv(file, schema) if file_format == "csv" else _parquet(file, schema) as writer:
        for table in grouped(tables):
            if len(first) < top:
                first += table.slice(0, top - len(first)).to_pylist()
            rows += table.num_rows
            writer.write_table(table, _GROUP_ROWS)
    return Written(rows, first)


def _parquet(file: BinaryIO, schema: Any) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False)


@contextmanager
def _csv(file: BinaryIO, schema: Any) -> Iterator[_Lines]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        yield _Lines(text, schema.names)
    finally:
        text.detach()


class _Lines:
    """Lines of CSV. Arrow would quote every text."""

    def __init__(self, file: TextIO, names: Sequence[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(names)

    def write_table(self, table: Any, _group_rows: int) -> None:
        self._writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def rows(place: ResultPlace, limit: int | None, numbers: Collection[str]) -> Iterator[dict[str, Any]]:
    """The rows as they stand in the file; `NotFound` where there is none.

    `numbers` are the columns of numbers: a CSV file does not say that `007` is a text.
    """
    batches = (row for batch in _batches(place, numbers) for row in batch.to_pylist())
    return islice(batches, limit)


def table(place: ResultPlace, numbers: Collection[str]) -> Any:
    """All of it as one table of Arrow."""
    import pyarrow

    return pyarrow.Table.from_batches(list(_batches(place, numbers)))


def _batches(place: ResultPlace, numbers: Collection[str]) -> Iterator[Any]:
    keys = place.result_keys()
    if not keys:
        raise NotFound(f"{place.storage.url}/{place.name} is not there.")
    for key in keys:
        with place.storage.open(key) as file:
            if key.endswith(".csv"):
                yield from _lines(file, numbers)
            else:
                from pyarrow import parquet

                yield from parquet.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False)


def _lines(file: BinaryIO, numbers: Collection[str]) -> Iterator[Any]:
    import pyarrow
    from pyarrow import csv as arrow_csv

    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        names = next(csv.reader(text), [])
        text.seek(0)
        texts = {name: pyarrow.string() for name in names if name not in numbers}
        options = arrow_csv.ConvertOptions(column_types=texts, strings_can_be_null=False)
        reading = arrow_csv.ReadOptions(use_threads=False)
        parsing = arrow_csv.ParseOptions(newlines_in_values=True)
        yield from arrow_csv.open_csv(file, reading, parsing, options)
