"""Rows of Parquet files as a worker reads them: the row groups of an item, then row by row."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate, pairwise
from typing import Any

import pyarrow
import pyarrow.parquet
from pyarrow import types

from shoal.spec.shared_sections import Input
from shoal.work.inputs.places import CHANGED, Place, blamed, one_line, partitions, place_of_row, text_of
from shoal.work.protocols import Unreadable

KEPT_BYTES = 256 * 1024 * 1024
"""A row group that is larger is gone through in batches for every item, and not kept for the next."""
_BATCH_ROWS = 256
_NO_VALUE = (pyarrow.ArrowException, ValueError, OverflowError)
"""What a value raises that Python has none for, as a date in the year 10000."""
Position = tuple[Any, int]
"""A table, and a row of it."""


class Rows:
    """See `Opened`. What an item needs is read with the first row that is asked for, and kept."""

    def __init__(self, place: Place, params: Mapping[str, Any], input_: Input, groups: Groups) -> None:
        self._place, self._params, self._input, self._groups = place, params, input_, groups
        self._lock = threading.Lock()
        self._parts: Sequence[Part] | None = None

    def __len__(self) -> int:
        return int(self._params["rows"])

    def keys(self, positions: Sequence[int]) -> dict[str, Sequence[Any]]:
        if self._input.key:
            return {name: self._key_column(name, positions) for name in self._input.key}
        path, start = self._place.path(self._params["file"]), self._params["start"]
        is_broken = "broken" in self._params
        rows = [None if is_broken else start + position for position in positions]
        return {"path": [path] * len(positions), "row": rows}

    def where(self, position: int) -> str:
        return place_of_row(self._place, self._params, position)

    def read(self, position: int) -> dict[str, Any]:
        table, row = self._at(position)
        names = self._input.column or [name for name in table.column_names if name not in self._input.key]
        try:
            return {name: _value(table, name, row) for name in names}
        except _NO_VALUE as error:
            raise Unreadable(f"cannot be read: {one_line(error)}") from None

    def _key_column(self, name: str, positions: Sequence[int]) -> Sequence[Any]:
        """As the file has it; value by value where some cannot be had."""
        try:
            column: Sequence[Any] = key_column(name, [self._at(position) for position in positions])
        except (Unreadable, *_NO_VALUE):
            return [self._key(position, name) for position in positions]
        return column

    def _key(self, position: int, name: str) -> Any:
        try:
            table, row = self._at(position)
            value = _value(table, name, row)
        except (Unreadable, *_NO_VALUE):
            return None
        return text_of(value) if isinstance(value, str) else value

    def _at(self, position: int) -> tuple[Any, int]:
        with self._lock:
            if self._parts is None:
                self._parts = self._read()
        ends = [*accumulate(part.rows for part in self._parts)]
        index = bisect_right(ends, position)
        part = self._parts[index]
        if part.reason is not None:
            raise Unreadable(part.reason)
        return part.table, position - ends[index] + part.rows

    def _read(self) -> Sequence[Part]:
        """What is wrong with the file is wrong with each row; what is wrong with a row group, with each of its own."""
        if "broken" in self._params:
            return [Part(len(self), reason=self._params["broken"])]
        try:
            with blamed():
                return self._groups.read(self._place, self._params)
        except Unreadable as error:
            return [Part(len(self), reason=str(error))]


class Part:
    """Rows of one row group, or why they cannot be had."""

    __slots__ = ("reason", "rows", "table")

    def __init__(self, rows: int, table: Any = None, *, reason: str | None = None) -> None:
        self.rows, self.table, self.reason = rows, table, reason


class Groups:
    """Reads row groups, and keeps the last one: items that lie within one row group often come one after the other."""

    def __init__(self, input_: Input) -> None:
        self._columns = [*dict.fromkeys((*input_.column, *input_.key))] if input_.column else None
        self._names = frozenset((*input_.column, *input_.key))
        self._lock = threading.Lock()
        self._kept: tuple[Any, Any] | None = None

    def read(self, place: Place, params: Mapping[str, Any]) -> list[Part]:
        """The rows of an item. Raises `Unreadable` for a file that is not what it was when it was listed."""
        groups, rows, skip = params["groups"], params["rows"], params["skip"]
        name = (place.root, params["file"], params["mark"], *groups)
        with self._lock:
            if self._kept is not None and self._kept[0] == name:
                return [Part(rows, self._kept[1].slice(skip, rows))]
        with ExitStack() as stack:
            source = stack.enter_context(place.storage.open(params["file"]))
            try:
                file = _Table(stack.enter_context(_file(source)), self._columns, self._in_path(place, params))
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise Unreadable(f"cannot be read as Parquet: {one_line(error)}") from None
            _check_unchanged(file.metadata, params)
            if len(groups) > 1:
                return [self._part(file, each) for each in groups]
            part = self._slice(file, groups[0], skip, rows, name)
        return [part]

    def _in_path(self, place: Place, params: Mapping[str, Any]) -> Mapping[str, str]:
        """Columns that are asked for and stand in the names of the file's folders."""
        found = partitions(place.path(params["file"]))
        return {name: value for name, value in found.items() if name in self._names}

    def _part(self, file: _Table, group: int) -> Part:
        """A whole row group."""
        rows = file.metadata.row_group(group).num_rows
        try:
            return Part(rows, file.group(group))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            return Part(rows, reason=f"its row group cannot be read: {one_line(error)}")

    def _slice(self, file: _Table, group: int, skip: int, rows: int, name: Any) -> Part:
        if file.metadata.row_group(group).total_byte_size > KEPT_BYTES:
            return self._streamed(file, group, skip, rows)
        part = self._part(file, group)
        if part.reason is not None:
            return Part(rows, reason=part.reason)
        if rows < part.rows:
            with self._lock:
                self._kept = (name, part.table)
        return Part(rows, part.table.slice(skip, rows))

    def _streamed(self, file: _Table, group: int, skip: int, rows: int) -> Part:
        """A slice of a row group, without holding all of it."""
        batches, seen = [], 0
        try:
            for batch in file.batches(group):
                begin, end = max(0, skip - seen), min(batch.num_rows, skip + rows - seen)
                if begin < end:
                    batches.append(batch.slice(begin, end - begin))
                seen += batch.num_rows
                if seen >= skip + rows:
                    break
            return Part(rows, file.completed(pyarrow.Table.from_batches(batches)))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            return Part(rows, reason=f"its row group cannot be read: {one_line(error)}")


class _Table:
    """A Parquet file, as far as its columns are asked for. Those of its path come after its own, which go before."""

    def __init__(self, file: Any, columns: Sequence[str] | None, in_path: Mapping[str, str]) -> None:
        own = file.schema_arrow.names
        self._file, self.metadata = file, file.metadata
        self._in_path = {name: value for name, value in in_path.items() if name not in own}
        self._columns = None if columns is None else [each for each in columns if each not in self._in_path]

    def group(self, index: int) -> Any:
        """A row group, as a table."""
        return self.completed(self._file.read_row_group(index, columns=self._columns, use_threads=False))

    def batches(self, index: int) -> Iterator[Any]:
        """The same, piece by piece, and not completed."""
        batches: Iterator[Any] = self._file.iter_batches(
            _BATCH_ROWS, row_groups=[index], columns=self._columns, use_threads=False
        )
        return batches

    def completed(self, table: Any) -> Any:
        """This table, with the columns of the path."""
        for name, value in self._in_path.items():
            table = table.append_column(name, pyarrow.array([value] * table.num_rows, pyarrow.string()))
        return table


def _file(source: Any) -> Any:
    return pyarrow.parquet.ParquetFile(source, page_checksum_verification=True)


def _check_unchanged(metadata: Any, params: Mapping[str, Any]) -> None:
    """Whether the row groups are where they were."""
    groups = params["groups"]
    if groups[-1] >= metadata.num_row_groups:
        raise Unreadable(CHANGED)
    before = sum(metadata.row_group(index).num_rows for index in range(groups[0]))
    inside = sum(metadata.row_group(index).num_rows for index in range(groups[0], groups[-1] + 1))
    fits = params["rows"] == inside if len(groups) > 1 else params["skip"] + params["rows"] <= inside
    if before + params["skip"] != params["start"] or not fits:
        raise Unreadable(CHANGED)


def _value(table: Any, name: str, row: int) -> Any:
    value = table.column(name)[row]
    kind = value.type
    if pyarrow.types.is_timestamp(kind) and kind.unit == "ns":  # Python's own have no nanoseconds.
        value = value.cast(pyarrow.timestamp("us", kind.tz), safe=False)
    return value.as_py()


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
