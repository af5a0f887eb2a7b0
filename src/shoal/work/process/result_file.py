"""The result of a process run as a file, Parquet or CSV: written as its tables come, and read by whoever shows it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from csv import reader as csv_rows
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

from shoal.errors import NotFound, SpecError
from shoal.files import is_url
from shoal.files.base import joined
from shoal.work.process.jobs.base import Job, columns
from shoal.work.process.partials import grouped, schema_of
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


def _csv(file: BinaryIO, schema: Any) -> Any:
    from pyarrow import csv

    file.write((",".join(schema.names) + "\n").encode())
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    return csv.CSVWriter(file, schema, write_options=options)


def rows(place: ResultPlace, limit: int | None) -> Iterator[dict[str, Any]]:
    """The rows as they stand in the file; `NotFound` where there is none."""
    batches = (row for batch in _batches(place) for row in batch.to_pylist())
    return islice(batches, limit)


def table(place: ResultPlace) -> Any:
    """All of it as one table of Arrow."""
    import pyarrow

    return pyarrow.Table.from_batches(list(_batches(place)))


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
        return next(csv_rows([file.readline(_LONGEST_LINE).decode("utf-8", "replace")]))
    import pyarrow
    from pyarrow import parquet

    try:
        names: list[str] = parquet.ParquetFile(file, pre_buffer=False).schema_arrow.names
    except pyarrow.ArrowException:
        return None
    return names


def _batches(place: ResultPlace) -> Iterator[Any]:
    keys = place.result_keys()
    if not keys:
        raise NotFound(f"{place.storage.url}/{place.name} is not there.")
    for key in keys:
        yield from _csv_batches(place, key) if key.endswith(".csv") else _parquet_batches(place, key)


def _parquet_batches(place: ResultPlace, key: str) -> Iterator[Any]:
    from pyarrow import parquet

    with place.storage.open(key) as file:
        yield from parquet.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False)


def _csv_batches(place: ResultPlace, key: str) -> Iterator[Any]:
    """Arrow reads CSV ahead in a thread, which must not need Python: at the end of a process, that would abort it."""
    import pyarrow
    from pyarrow import csv

    with TemporaryDirectory(prefix="shoal-") as folder:
        path = os.path.join(place.storage.url, key)
        if is_url(place.storage.url):
            path = os.path.join(folder, "result.csv")
            place.storage.download(key, path)
        with pyarrow.OSFile(path) as file:
            yield from csv.open_csv(
                file,
                read_options=csv.ReadOptions(use_threads=False),
                parse_options=csv.ParseOptions(newlines_in_values=True),
            )
