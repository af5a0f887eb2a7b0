"""The rows of an output, as `shoal results` shows them. Reads parts only: neither errors nor what is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from shoal.errors import NotFound
from shoal.files import Storage
from shoal.spec.shared_sections import Output
from shoal.work.outputs.layout import look, opened, part_key
from shoal.work.outputs.part_tables import read_table

_BATCH_ROWS = 1000


def rows(output: Output, folder: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows in the order of parts, as they are read; a part that has gone by now raises `NotFound`."""
    storage = opened(output, folder)
    parts = look(storage).parts
    every = (row for seq in sorted(parts) for row in _rows(storage, parts[seq], limit))
    return islice(every, limit)


def rows_of_part(output: Output, folder: str, seq: int) -> Iterator[dict[str, Any]]:
    """The rows of one item; none where it has no part."""
    try:
        yield from _rows(opened(output, folder), part_key(seq), None)
    except NotFound:
        return


def parts_there(output: Output, folder: str) -> set[int]:
    """The items whose parts are there."""
    return set(look(opened(output, folder)).parts)


def table(output: Output, folder: str) -> Any:
    """All rows as one pyarrow table, in the order of parts. Types that only some parts know are those of all."""
    import pyarrow

    storage = opened(output, folder)
    parts = look(storage).parts
    tables = [read_table(storage, parts[seq]).replace_schema_metadata() for seq in sorted(parts)]
    if not tables:
        return pyarrow.table({})
    return pyarrow.concat_tables(tables, promote_options="permissive")


def _rows(storage: Storage, key: str, limit: int | None) -> Iterator[dict[str, Any]]:
    size = _BATCH_ROWS if limit is None else max(1, min(_BATCH_ROWS, limit))
    for batch in _for_python(read_table(storage, key)).to_batches(max_chunksize=size):
        yield from batch.to_pylist()


def _for_python(table: Any) -> Any:
    """Times without nanoseconds, which Python's own do not have."""
    import pyarrow
    from pyarrow import types

    for index, field in enumerate(table.schema):
        if getattr(field.type, "unit", None) != "ns":
            continue
        if types.is_timestamp(field.type):
            kind = pyarrow.timestamp("us", field.type.tz)
        else:
            kind = pyarrow.time64("us") if types.is_time(field.type) else pyarrow.duration("us")
        table = table.set_column(index, field.name, table.column(index).cast(kind, safe=False))
    return table
