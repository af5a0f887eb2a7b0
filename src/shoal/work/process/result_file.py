"""The result of a process as one file: Parquet or CSV, written as its tables come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

from shoal.work.process.jobs.base import Job, columns
from shoal.work.process.partials import grouped, schema_of

FORMATS = ("parquet", "csv")
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
