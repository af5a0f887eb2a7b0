"""The errors of all items in one file, with the columns of the parts: all can be read together.

It is made anew from the files of the items, and from the last such file for items whose own were tidied away.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from shoal.errors import NotFound
from shoal.files import Storage
from shoal.store.arrow import column
from shoal.work.outputs.columns import arrays_of, table_of
from shoal.work.outputs.misfits import bare, keys_as, with_misfits
from shoal.work.outputs.parts import METADATA
from shoal.work.outputs.schemas import final, merged

GROUP_ROWS = 20_000
"""How many errors are held at once."""
LOST = "the record of this error was removed"
_REASONS_COUNTED = 10_000
_REASONS_KEPT = 1_000


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
