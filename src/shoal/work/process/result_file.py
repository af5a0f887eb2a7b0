"""The result of a process run as a file, Parquet or CSV: written as its tables come, and read by whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from csv import reader as csv_rows
from io import TextIOWrapper
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from shoal.errors import NotFound, SpecError
from shoal.files.base import joined
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
        [line] = islice(csv_rows(TextIOWrapper(file, "utf-8", "replace")), 1)
        return line
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
        with place.storage.open(key) as file:
            if key.endswith(".csv"):
                from pyarrow import csv

                yield from csv.open_csv(
                    file,
                    read_options=csv.ReadOptions(use_threads=False),
                    parse_options=csv.ParseOptions(newlines_in_values=True),
                )
            else:
                from pyarrow import parquet

                yield from parquet.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False)
