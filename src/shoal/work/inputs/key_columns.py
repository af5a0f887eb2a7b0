"""Key columns of tables as arrays of Arrow: what is copied to the output keeps its value, to the nanosecond and cent.

Files that belong together often differ in the width of a type; so narrow types become the wide one of their sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow
from pyarrow import types

Position = tuple[Any, int]
"""A table, and a row of it."""


def key_column(name: str, rows: Sequence[Position]) -> Any:
    """These rows of the column. Raises what Arrow does for values that are not valid."""
    chunks = [
        chunk for table, row, count in _runs(rows) for chunk in table.column(name).slice(row, count).chunks
    ]
    if not chunks:
        return pyarrow.nulls(0)
    array = _wide(pyarrow.concat_arrays(chunks))
    if types.is_string(array.type):
        array.validate(full=True)
    if types.is_date(array.type) or (types.is_timestamp(array.type) and array.type.unit != "ns"):
        array.to_pylist()  # Raises for a year that Python does not have: who reads the output could not show it.
    return array


def _runs(rows: Sequence[Position]) -> Iterator[tuple[Any, int, int]]:
    """Rows that follow each other in one table: table, first row, number."""
    breaks = [
        index + 1
        for index, ((table, row), (following, after)) in enumerate(pairwise(rows))
        if following is not table or after != row + 1
    ]
    for begin, end in pairwise([0, *breaks, len(rows)] if rows else []):
        table, row = rows[begin]
        yield table, row, end - begin


def _wide(array: Any) -> Any:
    if isinstance(array, pyarrow.ExtensionArray):
        return _wide(array.storage)
    if types.is_dictionary(array.type):
        return _wide(array.dictionary_decode())
    kind = _wide_type(array.type)
    return array if kind == array.type else array.cast(kind)


def _wide_type(kind: Any) -> Any:
    if types.is_integer(kind) and kind != pyarrow.uint64():
        return pyarrow.int64()
    if types.is_floating(kind):
        return pyarrow.float64()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pyarrow.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pyarrow.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit in ("s", "ms"):
        return pyarrow.duration("us")
    if types.is_time32(kind):
        return pyarrow.time64("us")
    return pyarrow.date32() if types.is_date64(kind) else kind
