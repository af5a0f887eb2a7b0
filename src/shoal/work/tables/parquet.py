"""Reads .parquet tables through pyarrow. Bytes, durations and maps are refused: they are no parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from re import compile as compile_pattern
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pyarrow.types as kinds

from shoal.spec.command import Cell
from shoal.work.tables.table import BLANK, LARGEST_WIDTH, CellError, Problems, plain_cell, value_cell

BATCH_ROWS = 4_096
TRAILING_ZEROS = compile_pattern(r"(\.\d*?)0+(?=\D|$)")
HINT = "Write it as text, numbers, booleans, dates, or lists and structs of those."


class ParquetSource:
    """A table in a Parquet file. Dates and times become ISO text; decimals keep their digits as text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: list[str] = []

    def place(self, index: int) -> str:
        return f"column {index + 1}"

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        with readable(problems), pyarrow.parquet.ParquetFile(self._path) as file:
            schema = file.schema_arrow
            if len(schema) > LARGEST_WIDTH:
                raise problems.fail(f"has more than {LARGEST_WIDTH:,} columns")
            for field in schema:
                if not is_parameter(field.type):
                    problems.add(
                        f"{field.type} is no type for a parameter", at=f"column {field.name!r}", hint=HINT
                    )
            if not problems:
                self._check(file, problems)
            self._names = list(schema.names)
            return self._names, file.metadata.num_rows

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        with readable(problems), pyarrow.parquet.ParquetFile(self._path) as file:
            if list(file.schema_arrow.names) != self._names:
                raise problems.fail("has other columns than when it was opened")
            groups = range(file.num_row_groups)
            while groups and start >= file.metadata.row_group(groups[0]).num_rows:
                start -= file.metadata.row_group(groups[0]).num_rows
                groups = groups[1:]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), use_threads=False):
                yield from cells_of(batch.slice(min(start, batch.num_rows)), problems)
                start = max(0, start - batch.num_rows)

    def _check(self, file: Any, problems: Problems) -> None:
        """Read it all once without making cells: broken pages show now, not in the middle of a run."""
        for batch in file.iter_batches(BATCH_ROWS * 16, use_threads=False):
            batch.validate(full=True)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if is_text(field.type) and has_nul(column):
                    problems.add("text with a NUL character", at=f"column {field.name!r}")
            problems.raise_any()


@contextmanager
def readable(problems: Problems) -> Iterator[None]:
    """Errors of pyarrow become one sentence."""
    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        cause = str(error).strip().splitlines() or [type(error).__name__]
        raise problems.fail(
            f"cannot be read as Parquet ({cause[0].rstrip('.')})", hint="Write the table again."
        ) from None


def is_text(kind: Any) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def is_plain(kind: Any) -> bool:
    """Types that are JSON as they are."""
    return bool(
        kinds.is_null(kind) or kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind)
    ) or is_text(kind)


def is_nested(kind: Any) -> bool:
    return bool(
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_struct(kind)
    )


def is_json(kind: Any) -> bool:
    if is_nested(kind):
        return all(is_json(kind.field(index).type) for index in range(kind.num_fields))
    return is_plain(kind)


def is_moment(kind: Any) -> bool:
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind) or kinds.is_time(kind))


def is_parameter(kind: Any) -> bool:
    if kinds.is_dictionary(kind):
        return is_parameter(kind.value_type)
    return is_json(kind) or is_moment(kind) or bool(kinds.is_decimal(kind))


def has_nul(column: Any) -> bool:
    return bool(pyarrow.compute.any(pyarrow.compute.match_substring(column, "\0")).as_py())


def cells_of(batch: Any, problems: Problems) -> Iterator[tuple[Cell, ...]]:
    try:
        columns = [column_cells(column) for column in batch.columns]
    except CellError as bad:
        raise problems.fail(bad.sentence, hint=bad.hint) from None
    return zip(*columns, strict=True)


def column_cells(column: Any) -> list[Cell]:
    """The cells of one column; a type that appeared since the table was opened is refused here too."""
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    make: Callable[[Any], Cell] = value_cell
    if kinds.is_float32(kind) or kinds.is_float16(kind):
        column, make = column.cast(pyarrow.float32()).cast(pyarrow.string()), short_float_cell
    elif is_moment(kind):
        column, make = column.cast(pyarrow.string()), moment_cell
    elif kinds.is_decimal(kind):
        make = decimal_cell
    elif is_text(kind):
        make = plain_cell
    elif not is_json(kind):
        raise CellError(f"{kind} is no type for a parameter", hint=HINT)
    return [BLANK if value is None else make(value) for value in column.to_pylist()]


def short_float_cell(text: str) -> Cell:
    """A 32-bit float by its shortest decimal: 0.1 stays 0.1, not 0.10000000149011612."""
    return value_cell(float(text))


def moment_cell(text: str) -> Cell:
    return plain_cell(TRAILING_ZEROS.sub(r"\1", text.replace(" ", "T")).replace(".Z", "Z").rstrip("."))


def decimal_cell(value: Any) -> Cell:
    text = format(value, "f")
    return Cell(float(text) if "." in text else int(text), text)
