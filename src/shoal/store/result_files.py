"""`results.csv` and `results.parquet`: the result rows as files, streamed, each replaced as a whole."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import IO, Any

from shoal.files import replacing
from shoal.spec.command import text_of
from shoal.store.items import Columns, Result, read_columns, results, timestamp
from shoal.store.schema import readable
from shoal.store.sqlite import clean

_GROUP = 20_000
_WIDE, _HUGE = 2**53, 2**63
_PLAIN = (float, int, str)


class _Lines:
    """Ends lines with a line feed alone. The writer must think otherwise, or it would not quote a lone return."""

    def __init__(self, file: IO[str]) -> None:
        self._write = file.write

    def write(self, line: str) -> None:
        self._write(line[:-2] + "\n")


class _Wide:
    """An integer that a double cannot hold exactly."""


class _Huge:
    """An integer of more than 64 bits."""


Kinds = dict[str, set[type]]
"""Which types each parameter and each metric had, by its column."""


def write_results(connection: sqlite3.Connection, folder: str) -> str:
    """Write both files; the path of the CSV. Needs as much memory for a million rows as for a thousand."""
    columns = read_columns(connection)
    kinds: Kinds = {name: set() for name in columns.names()}
    path = os.path.join(folder, "results.csv")
    with replacing(path, "w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.writer(_Lines(file))
        writer.writerow(columns.names())
        for result in results(connection):
            writer.writerow(_texts(result, columns))
            _note(kinds, result, columns)
    _write_parquet(connection, os.path.join(folder, "results.parquet"), columns, kinds)
    return path


def _texts(result: Result, columns: Columns) -> list[Any]:
    """The cells of a CSV row: parameters by their exact text, metrics as numbers are read elsewhere."""
    item, state, params, texts, metrics, last = result
    cells: list[Any] = [item, state]
    for name in columns.params:
        value = params.get(name)
        exact = value if type(value) is str else texts.get(name) if texts else None
        cells.append(text_of(value) if exact is None else exact)
    for name in columns.metrics:
        value = metrics.get(name)
        cells.append(value if value is None or type(value) in _PLAIN else json.dumps(value))
    cells += last
    return cells


def _note(kinds: Kinds, result: Result, columns: Columns) -> None:
    for name, value in result[2].items():
        if name in kinds:
            kinds[name].add(_kind(value))
    for name, value in result[4].items():
        if name in columns.metrics:
            kinds[columns.metrics[name]].add(_kind(value))


def _kind(value: Any) -> type:
    kind = type(value)
    if kind is int and not -_WIDE <= value <= _WIDE:
        return _Wide if -_HUGE <= value < _HUGE else _Huge
    return kind


def table(connection: sqlite3.Connection) -> Any:
    """All rows as one pyarrow table, with the types of results.parquet."""
    import pyarrow

    columns = read_columns(connection)
    kinds: Kinds = {name: set() for name in columns.names()}
    for result in results(connection):
        _note(kinds, result, columns)
    schema = _schema(columns, kinds)
    return pyarrow.concat_tables([schema.empty_table(), *_tables(connection, columns, schema)])


def _write_parquet(connection: sqlite3.Connection, path: str, columns: Columns, kinds: Kinds) -> None:
    import pyarrow.parquet

    schema = _schema(columns, kinds)
    with replacing(path, "wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for part in _tables(connection, columns, schema):
            writer.write_table(part)


def _schema(columns: Columns, kinds: Kinds) -> Any:
    import pyarrow

    fixed = {"seconds": pyarrow.float64(), "attempt": pyarrow.int64()}
    return pyarrow.schema(
        [(clean(name), fixed.get(name) or _arrow_type(pyarrow, kinds[name])) for name in columns.names()]
    )


def _tables(connection: sqlite3.Connection, columns: Columns, schema: Any) -> Iterator[Any]:
    """The rows in parts, none of which is kept while the next is read."""
    import pyarrow

    kinds = zip(columns.names(), schema.types, strict=True)
    texts = {name for name, kind in kinds if pyarrow.types.is_string(kind)}
    for group in _groups(connection):
        values = _columnar(group, columns, texts)
        arrays = [column(each, kind) for each, kind in zip(values, schema.types, strict=True)]
        yield pyarrow.Table.from_arrays(arrays, schema=schema)
        del group, arrays  # before the next group is read


def write_reports(connection: sqlite3.Connection, folder: str) -> None:
    """`metrics/reports.csv`: what items reported while they ran, a line each; no file when none did."""
    names = list(read_columns(connection).metrics)
    query = (
        "SELECT items.id, reports.attempt, step, at, reports.metrics FROM reports JOIN items USING (seq)"
        " ORDER BY seq, reports.attempt, number"
    )
    rows = connection.execute(query)
    first = rows.fetchone()
    if first is None:
        return
    os.makedirs(os.path.join(folder, "metrics"), exist_ok=True)
    path = os.path.join(folder, "metrics", "reports.csv")
    with replacing(path, "w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.writer(_Lines(file))
        writer.writerow(["item", "attempt", "step", "at", *names])
        for item, attempt, step, at, told in chain([first], rows):
            [metrics] = readable([told])
            cells = [metrics.get(name) for name in names]
            plain = [
                value if value is None or type(value) in _PLAIN else json.dumps(value) for value in cells
            ]
            writer.writerow([item, attempt, step, timestamp(at), *plain])


def _arrow_type(pyarrow: Any, kinds: set[type]) -> Any:
    """The type that holds every value exactly; text where there is none."""
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds and kinds <= {int, _Wide}:
        return pyarrow.int64()
    if kinds and kinds <= {int, float}:
        return pyarrow.float64()
    return pyarrow.string()


def _groups(connection: sqlite3.Connection) -> Iterator[list[Result]]:
    """A group at a time, and no name for it here, so that none is kept while the next is read."""
    each = results(connection)
    for first in each:
        yield [first, *islice(each, _GROUP - 1)]


def _columnar(group: list[Result], columns: Columns, texts: Collection[str]) -> Iterator[list[Any]]:
    """The values of each column, in order; as text where the column is in `texts`."""
    yield [result[0] for result in group]
    yield [result[1] for result in group]
    for name in columns.params:
        values = [result[2].get(name) for result in group]
        exact = [(result[3] or {}).get(name) for result in group] if name in texts else []
        yield _as_texts(values, exact) if name in texts else values
    for name, column in columns.metrics.items():
        values = [result[4].get(name) for result in group]
        yield _as_texts(values, [None] * len(values)) if column in texts else values
    for place in range(len(group[0][5])):
        yield [result[5][place] for result in group]


def _as_texts(values: list[Any], exact: list[str | None]) -> list[str | None]:
    return [
        None if value is None else clean(value if type(value) is str else text or _text(value))
        for value, text in zip(values, exact, strict=True)
    ]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else text_of(value)


def column(values: Sequence[Any], kind: Any) -> Any:
    """An array of the kind bool, int64, float64 or string. None is null; every other value fits the kind."""
    import pyarrow

    nulls = sum(value is None for value in values)
    validity = pyarrow.py_buffer(_bits([value is not None for value in values])) if nulls else None
    data = [pyarrow.py_buffer(part) for part in _buffers(values, str(kind))]
    return pyarrow.Array.from_buffers(kind, len(values), [validity, *data], nulls)


def _buffers(values: Sequence[Any], kind: str) -> list[bytes | array[Any]]:
    if kind == "bool":
        return [_bits([bool(value) for value in values])]
    if kind == "int64":
        return [array("q", (0 if value is None else value for value in values))]
    if kind == "double":
        return [array("d", (0.0 if value is None else value for value in values))]
    texts = [b"" if value is None else value.encode("utf-8", "surrogateescape") for value in values]
    return [array("i", accumulate(map(len, texts), initial=0)), b"".join(texts)]


def _bits(flags: Sequence[bool]) -> bytes:
    """One bit each, the lowest first."""
    packed = bytearray((len(flags) + 7) // 8)
    for position, flag in enumerate(flags):
        if flag:
            packed[position >> 3] |= 1 << (position & 7)
    return bytes(packed)
