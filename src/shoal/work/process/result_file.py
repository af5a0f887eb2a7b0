"""The result of a process run as a file, Parquet or CSV: written as its tables come, and read by whoever shows it."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple, TextIO

from shoal.errors import NotFound, SpecError
from shoal.files import is_url
from shoal.files.base import joined
from shoal.work.process.jobs.base import Job, columns, is_rows
from shoal.work.process.partials import grouped, schema_of
from shoal.work.process.reduction import merged_ranks
from shoal.work.process.result_place import ResultPlace

_GROUP_ROWS = 128 * 1024
_LONGEST_LINE = 64 * 1024


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


def rows(
    place: ResultPlace, limit: int | None, numbers: Collection[str], job: Job | None = None
) -> Iterator[dict[str, Any]]:
    """The rows as they stand in the file; `NotFound` where there is none.

    `numbers` are the columns of numbers: a CSV file does not say that `007` is a text. Parts of a result are merged,
    where the job is known: each is sorted by itself.
    """
    return islice((row for each in _tables(place, numbers, job) for row in each.to_pylist()), limit)


def table(place: ResultPlace, numbers: Collection[str], job: Job | None = None) -> Any:
    """All of it as one table of Arrow."""
    import pyarrow

    return pyarrow.concat_tables(_tables(place, numbers, job))


def _tables(place: ResultPlace, numbers: Collection[str], job: Job | None) -> Iterator[Any]:
    keys = place.result_keys()
    if not keys:
        raise NotFound(f"{place.storage.url}/{place.name} is not there.")
    parts = [_tables_of(place, key, numbers) for key in keys]
    if len(parts) == 1 or job is None or is_rows(job):
        return chain.from_iterable(parts)
    return merged_ranks(job, parts)


def _tables_of(place: ResultPlace, key: str, numbers: Collection[str]) -> Iterator[Any]:
    """Of one file; the first has no rows, and says what the columns are."""
    import pyarrow

    with _opened_csv(place, key, numbers) if key.endswith(".csv") else _opened_parquet(place, key) as found:
        schema, batches = found
        yield schema.empty_table()
        for batch in batches:
            yield pyarrow.Table.from_batches([batch])


def ensure_replaceable(place: ResultPlace, job: Job) -> None:
    """`SpecError` where a file is in the place of the result that is none of this job: it has other columns."""
    for key in place.result_keys():
        with place.storage.open(key) as file:
            found = _names(file, key)
        wanted = list(columns(job))
        if found not in (wanted, []):
            has = f"has the columns {', '.join(found)}" if found else f"cannot be read as {place.ending[1:]}"
            raise SpecError(
                f"output: {joined(place.storage.url, key)} is there already, and is no result of this job: it {has},"
                f" not {', '.join(wanted)}.",
                hint="Give another path, or remove the file.",
            )


def _names(file: BinaryIO, key: str) -> list[str] | None:
    """The columns of a file, none of an empty one; None where it is not what its name says."""
    if not file.read(1):
        return []
    file.seek(0)
    if key.endswith(".csv"):
        return next(csv.reader([file.readline(_LONGEST_LINE).decode("utf-8", "replace")]))
    import pyarrow
    from pyarrow import parquet

    try:
        names: list[str] = parquet.ParquetFile(file, pre_buffer=False).schema_arrow.names
    except pyarrow.ArrowException:
        return None
    return names


@contextmanager
def _opened_parquet(place: ResultPlace, key: str) -> Iterator[tuple[Any, Iterable[Any]]]:
    from pyarrow import parquet

    with place.storage.open(key) as file:
        found = parquet.ParquetFile(file, pre_buffer=False)
        yield found.schema_arrow, found.iter_batches(use_threads=False)


@contextmanager
def _opened_csv(
    place: ResultPlace, key: str, numbers: Collection[str]
) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Arrow reads CSV ahead in a thread, which must not need Python: at the end of a process, that would abort it."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    with place.storage.open(key) as file:
        names = _names(file, key) or []
    texts = {name: pyarrow.string() for name in names if name not in numbers}
    options = arrow_csv.ConvertOptions(column_types=texts, strings_can_be_null=False)
    reading = arrow_csv.ReadOptions(use_threads=False)
    parsing = arrow_csv.ParseOptions(newlines_in_values=True)
    with TemporaryDirectory(prefix="shoal-") as folder:
        path = os.path.join(place.storage.url, key)
        if is_url(place.storage.url):
            path = os.path.join(folder, "result.csv")
            place.storage.download(key, path)
        with pyarrow.OSFile(path) as native:
            found = arrow_csv.open_csv(native, reading, parsing, options)
            yield found.schema, found
