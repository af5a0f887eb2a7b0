"""The result of a process run as a file: written from tables by a worker, read again by whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from shoal.errors import NotFound
from shoal.work.process.partials import schema_of
from shoal.work.process.result_place import ResultPlace

_GROUP_ROWS = 1 << 20


def write_result(path: Path, tables: Iterable[Any], columns: Mapping[str, str], name: str) -> int:
    """Write tables with these columns as what the ending of `name` says: how many rows there are."""
    schema = schema_of(columns)
    with _writer(path, schema, name) as writer:
        rows = 0
        for table in tables:
            writer.write_table(table.select(schema.names).cast(schema))
            rows += table.num_rows
    return rows


def _writer(path: Path, schema: Any, name: str) -> Any:
    if name.endswith(".csv"):
        from pyarrow import csv

        return csv.CSVWriter(path, schema, write_options=csv.WriteOptions(quoting_style="needed"))
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema, compression="zstd")


def rows(place: ResultPlace, limit: int | None) -> Iterator[dict[str, Any]]:
    """The rows as they stand in the file; `NotFound` where there is none."""
    batches = (row for batch in _batches(place) for row in batch.to_pylist())
    return islice(batches, limit)


def table(place: ResultPlace) -> Any:
    """All of it as one table of Arrow."""
    import pyarrow

    return pyarrow.Table.from_batches(list(_batches(place)))


def _batches(place: ResultPlace) -> Iterator[Any]:
    keys = place.result_keys()
    if not keys:
        raise NotFound(f"{place.storage.url}/{place.name} is not there.")
    for key in keys:
        with place.storage.open(key) as file:
            if key.endswith(".csv"):
                from pyarrow import csv

                yield from csv.open_csv(file, read_options=csv.ReadOptions(use_threads=False))
            else:
                from pyarrow import parquet

                yield from parquet.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False)
