"""Records that could not be used: counted where they are found, and gathered in one file beside the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.errors import NotFound
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.work.process.brought_partials import ERRORS
from shoal.work.process.result_place import ResultPlace
from shoal.work.records.record import BadRecord

KEPT = 10_000
"""Bad records of one item that are kept with their reasons; the others are counted."""


class BadRecords:
    """Bad records of one item, or of the input's indexes: all are counted, some are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[BadRecord] = []

    def note(self, record: BadRecord) -> None:
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(record)

    def table(self) -> Any:
        """Those that are kept."""
        import pyarrow

        return pyarrow.table(
            {name: [getattr(each, name) for each in self.kept] for name in BadRecord._fields}
        )

    def file(self) -> bytes:
        """The same as a Parquet file."""
        return _file(self.table())


def gather(
    place: ResultPlace, items: Sequence[Item], own: BadRecords, turn: Turn, brought: str | None
) -> Counter[str]:
    """One file with those of these items and `own`: how often each reason was found.

    `brought` is the folder that they were brought to, if they were.
    """
    turn.ensure()
    if not items and not own.count:
        place.storage.delete(place.all_errors_key)
        return Counter()
    import pyarrow
    from pyarrow import parquet

    tables = [own.table()] if own.count else []
    for item in items:
        try:
            data = _errors_of(item, place, brought)
        except (NotFound, FileNotFoundError):
            return Counter()  # Gathered before, and tidied away.
        tables.append(parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False))
    table = pyarrow.concat_tables(tables)
    place.storage.write(place.all_errors_key, _file(table))
    return Counter(table.column("reason").to_pylist())


def _errors_of(item: Item, place: ResultPlace, brought: str | None) -> bytes:
    if brought is not None:
        return Path(brought, item.id, ERRORS).read_bytes()
    return place.storage.read(place.errors_key(item.seq, item.content))


def _file(table: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
