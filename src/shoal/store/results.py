"""`results.csv` and `results.parquet`: the result rows as files, streamed, each replaced as a whole.

Two passes over the items: one writes the CSV and learns each column's type, one writes the Parquet.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, Any, NamedTuple

from shoal.files import replacing
from shoal.spec.cell import text_of
from shoal.store.items import pages
from shoal.store.rows import RAW, Columns, read_columns, tail
from shoal.store.sqlite import clean

_GROUP = 20_000
_WIDE, _HUGE = 2**53, 2**63


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


class _Raw(NamedTuple):
    """An item as the files need it."""

    item: str
    state: str
    params: Mapping[str, Any]
    texts: Mapping[str, str]
    metrics: Mapping[str, Any]
    tail: tuple[Any, ...]


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
        for raw in _each(connection):
            writer.writerow(_texts(raw, columns))
            _note(kinds, raw, columns)
    _write_parquet(connection, os.path.join(folder, "results.parquet"), columns, kinds)
    return path


def _each(connection: sqlite3.Connection) -> Iterator[_Raw]:
    for page in pages(connection, RAW):
        for raw in page:
            texts = json.loads(raw[4]) if raw[4] else {}
            metrics = json.loads(raw[5]) if raw[5] else {}
            yield _Raw(raw[1], raw[2], json.loads(raw[3]), texts, metrics, tail(raw))


def _texts(raw: _Raw, columns: Columns) -> list[Any]:
    """The cells of a CSV row: parameters by their exact text, metrics as numbers are read elsewhere."""
    params, texts, metrics = raw.params, raw.texts, raw.metrics
    cells: list[Any] = [raw.item, raw.state]
    for name in columns.params:
        cells.append(texts[name] if name in texts else text_of(params.get(name)))
    for name in columns.metrics:
        cells.append(_metric_text(metrics.get(name)))
    cells.extend(raw.tail)
    return cells


def _metric_text(value: Any) -> Any:
    """As JSON has it, but for text, which stands for itself."""
    return value if value is None or type(value) in (float, int, str) else json.dumps(value)


def _note(kinds: Kinds, raw: _Raw, columns: Columns) -> None:
    for name, value in raw.params.items():
        kinds[name].add(_kind(value))
    for name, value in raw.metrics.items():
        kinds[columns.metrics[name]].add(_kind(value))


def _kind(value: Any) -> type:
    kind = type(value)
    if kind is int and not -_WIDE <= value <= _WIDE:
        return _Wide if -_HUGE <= value < _HUGE else _Huge
    return kind


def _write_parquet(connection: sqlite3.Connection, path: str, columns: Columns, kinds: Kinds) -> None:
    import pyarrow
    import pyarrow.parquet

    fixed = {"seconds": pyarrow.float64(), "attempt": pyarrow.int64()}
    types = {name: fixed.get(name) or _arrow_type(pyarrow, kinds[name]) for name in columns.names()}
    schema = pyarrow.schema(list(types.items()))
    with replacing(path, "wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for group in _groups(connection):
            arrays = [
                pyarrow.array(_values(name, values, pyarrow.types.is_string(types[name])), type=types[name])
                for name, values in zip(types, _columnar(group, columns), strict=True)
            ]
            writer.write_table(pyarrow.table(arrays, schema=schema))
            del group, arrays  # before the next group is read


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


def _groups(connection: sqlite3.Connection) -> Iterator[list[_Raw]]:
    """A group at a time; it is the caller's alone, so that none is kept while the next is read."""
    each = _each(connection)
    while next_group := [*islice(each, _GROUP)]:
        hand_over = [next_group]
        del next_group
        yield hand_over.pop()


def _columnar(group: list[_Raw], columns: Columns) -> Iterator[list[Any]]:
    """The values of each column, beside their exact texts where these exist: (value, text or None)."""
    yield [(raw.item, None) for raw in group]
    yield [(raw.state, None) for raw in group]
    for name in columns.params:
        yield [(raw.params.get(name), raw.texts.get(name)) for raw in group]
    for name in columns.metrics:
        yield [(raw.metrics.get(name), None) for raw in group]
    for place in range(len(group[0].tail)):
        yield [(raw.tail[place], None) for raw in group]


def _values(name: str, values: list[Any], is_text: bool) -> list[Any]:
    if not is_text:
        return [value for value, _ in values]
    return [
        value if value is None else clean(value if type(value) is str else text or _plain_text(value))
        for value, text in values
    ]


def _plain_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else text_of(value)
