"""Parts as tables: the rows that `shoal results` shows, and the errors of all items in one file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from shoal.errors import NotFound
from shoal.files import Storage
from shoal.spec.shared_sections import Output
from shoal.store.result_files import column
from shoal.work.outputs.columns import arrays_of, table_of
from shoal.work.outputs.layout import look, opened, part_key
from shoal.work.outputs.misfits import bare, keys_as, with_misfits
from shoal.work.outputs.parts import METADATA
from shoal.work.outputs.schemas import final, merged

GROUP_ROWS = 20_000
"""How many errors are held at once."""
LOST = "the record of this error was removed"
_REASONS_COUNTED = 10_000
_REASONS_KEPT = 1_000
_BATCH_ROWS = 1000


class ItemErrors(NamedTuple):
    """Where the errors of one item are, and how many. Without a key, they are in an earlier file of all errors."""

    key: str | None
    number: int


def combine(
    storage: Storage, items: Mapping[int, ItemErrors], schema: Any, key: str, known: Sequence[str]
) -> Counter[str]:
    """Write a file with the errors of these items, in their order: how often each reason was found.

    `schema` is that of the parts, or None where none has a row. `known` are earlier files of all errors: the first
    that is there counts. Without items nothing is written.
    """
    if not items:
        return Counter()
    earlier = next((each for each in known if storage.exists(each)), None)
    if schema is None:
        schema = _schema_of_errors(storage, items, earlier)
    descriptor, path = tempfile.mkstemp(suffix=".parquet")
    os.close(descriptor)
    try:
        reasons = _write(path, _tables(storage, items, earlier), items, schema)
        storage.write(key, Path(path))
    finally:
        os.unlink(path)
    return reasons


def reason_column(names: Sequence[str]) -> str:
    """What the column of reasons is called beside these."""
    return "reason" if "reason" not in names else "error_reason"


def _write(path: str, tables: Iterator[Any], items: Mapping[int, ItemErrors], schema: Any) -> Counter[str]:
    import pyarrow
    from pyarrow import parquet

    wide = schema.append(pyarrow.field(reason_column(schema.names), pyarrow.string()))
    counts = json.dumps({"items": [(seq, items[seq].number) for seq in sorted(items)]})
    wide = wide.with_metadata({METADATA: counts.encode()})
    reasons: Counter[str] = Counter()
    held: list[Any] = []
    with parquet.ParquetWriter(path, wide, compression="snappy") as writer:
        for table in tables:
            held.append(_widened(table, wide))
            _count(reasons, held[-1].column(wide.names[-1]).to_pylist())
            if sum(each.num_rows for each in held) >= GROUP_ROWS:
                writer.write_table(pyarrow.concat_tables(held))
                held = []
        if held:
            writer.write_table(pyarrow.concat_tables(held))
    return reasons


def _count(reasons: Counter[str], found: Sequence[str | None]) -> None:
    """Reasons may all be different, as when they name the file; then the rare ones are forgotten now and then."""
    reasons.update(map(bare, found))
    if len(reasons) > _REASONS_COUNTED:
        kept = reasons.most_common(_REASONS_KEPT)
        reasons.clear()
        reasons.update(dict(kept))


def _widened(table: Any, wide: Any) -> Any:
    """Errors with the columns of the parts, which are null; the last column has the reasons, whatever it is called."""
    *names, _ = table.column_names
    table = table.rename_columns([*names, wide.names[-1]])
    arrays, misfits = arrays_of(table), []
    for name in names:
        if name in wide.names:
            arrays[name], told = keys_as(name, arrays[name], wide.field(name).type)
            misfits.append(told)
    if any(misfits):
        reasons = with_misfits(arrays[wide.names[-1]].to_pylist(), misfits)
        arrays[wide.names[-1]] = column(reasons, wide.field(len(wide) - 1).type)
    return table_of(wide, arrays, table.num_rows)


def _tables(storage: Storage, items: Mapping[int, ItemErrors], earlier: str | None) -> Iterator[Any]:
    """The errors of each item, in the order of items."""
    known = _earlier(storage, earlier)
    seen: tuple[int, Any] = (-1, None)
    for seq in sorted(items):
        key, number = items[seq]
        if key is not None:
            with suppress(NotFound):  # An earlier driver may be tidying up what it combined.
                yield read_table(storage, key)
                continue
        while seen[0] < seq:
            seen = next(known, (sys.maxsize, None))
        yield seen[1] if seen[0] == seq else _lost(number)


def _lost(count: int) -> Any:
    """For errors whose files somebody removed: how many there were is known, and no more."""
    import pyarrow

    return pyarrow.Table.from_arrays([column([LOST] * count, pyarrow.string())], ["reason"])


def _earlier(storage: Storage, key: str | None) -> Iterator[tuple[int, Any]]:
    """What an earlier file of all errors has of each item, in the order of items. Holds little at once."""
    import pyarrow
    from pyarrow import parquet

    if key is None:
        return
    with storage.open(key) as opened, parquet.ParquetFile(opened) as file:
        counts = json.loads((file.metadata.metadata or {}).get(METADATA, b'{"items": []}'))["items"]
        batches = file.iter_batches(GROUP_ROWS, use_threads=False)
        held = table_of(file.schema_arrow, {}, 0)
        for seq, count in counts:
            while held.num_rows < count:
                held = pyarrow.concat_tables([held, pyarrow.Table.from_batches([next(batches)])])
            yield seq, held.slice(0, count)
            held = held.slice(count)


def _schema_of_errors(storage: Storage, items: Mapping[int, ItemErrors], earlier: str | None) -> Any:
    """Where no input was good, only the errors know the keys. What is in the combined file has their types already."""
    import pyarrow
    from pyarrow import parquet

    found: Any = None
    keys = {each.key or earlier for each in items.values()}
    for key in sorted(each for each in keys if each is not None):
        try:
            with storage.open(key) as file:
                schema = parquet.read_schema(file)
        except NotFound:
            continue
        own = schema.remove(len(schema) - 1).remove_metadata()
        found = own if found is None else merged(found, own)
    return final(pyarrow.schema([]) if found is None else found)


def read_table(storage: Storage, key: str) -> Any:
    """A Parquet file of ours as a whole. Without threads of pyarrow's that would read a file of Python's: one of them
    that still runs when Python ends takes the process down."""
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(pyarrow.BufferReader(storage.read(key))) as file:
        return file.read(use_threads=False)


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
