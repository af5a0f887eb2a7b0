"""Reads a table of experiments: a row is a trial, a column a parameter; .xlsx .csv .tsv .jsonl .parquet.

Opening reads the table once, checks it and counts its rows; the rows themselves are then streamed.
It does not know what a trial is for, and it never writes a table.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Protocol

from shoal.errors import NotFound, SpecError, nearest
from shoal.spec.cell import RESERVED, Cell
from shoal.work.tables.table_problems import LARGEST_WIDTH, Problems

FORMATS = (".xlsx", ".csv", ".tsv", ".jsonl", ".parquet")
CHANGED = "Leave the table alone while it is being read, then start again."


class Source(Protocol):
    """A table in one format. Every call reads the file afresh, so a source may be used again and again."""

    def place(self, index: int) -> str:
        """What people call the column at this index: `column C`. Valid after `scan`."""

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        """The names as they stand and the number of rows; notes what is wrong, raises if it cannot go on."""

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        """The rows from `start` on; raises what is wrong when it is met. Valid after `scan`."""


class Table:
    """An opened table: its columns, how many trials it has, and its rows as often as they are wanted."""

    __slots__ = ("_source", "columns", "count", "path")

    def __init__(self, path: str, columns: tuple[str, ...], count: int, source: Source) -> None:
        self.path = path
        self.columns = columns
        self.count = count
        self._source = source

    def rows(self, start: int = 0) -> Iterator[tuple[Cell, ...]]:
        """The rows in order, from row `start` (0 is the first): a new pass through the file each time.

        Exactly the `count` rows that were there when the table was opened: rows added since are left for the
        next opening; a table that has become shorter or broken is a `SpecError`.
        """
        problems = Problems(self.path)
        seen = start
        try:
            for row in self._source.rows(start, problems) if start < self.count else ():
                yield row
                seen += 1
                if seen == self.count:
                    return
        except OSError as error:
            raise problems.fail(f"can no longer be read ({error.strerror})", hint=CHANGED) from None
        if start < self.count:
            raise problems.fail(f"has {seen:,} rows now, had {self.count:,} when opened", hint=CHANGED)


def open_table(path: str) -> Table:
    """Open and check a table. Raises `NotFound`, or `SpecError` with every problem that was found."""
    source = source_of(path)
    problems = Problems(path)
    try:
        names, count = source.scan(problems)
    except OSError as error:
        raise problems.fail(f"cannot be read ({error.strerror})") from None
    columns = tuple(name.strip() for name in names)
    if not columns and not problems:
        problems.add("is empty: it has no header and no rows", hint="Name the columns in the first row.")
    elif not count and not problems:
        problems.add("has a header but no rows", hint="Add a row for each trial.")
    check_names(columns, source, problems)
    problems.raise_any()
    return Table(path, columns, count, source)


def source_of(path: str) -> Source:
    """The reader for this file, by its extension, once it is known to be a file with something in it."""
    check_file(path)
    extension = os.path.splitext(path)[1].lower()
    if extension == ".xlsx":
        from shoal.work.tables.xlsx import XlsxSource

        return XlsxSource(path)
    if extension == ".jsonl":
        from shoal.work.tables.jsonl import JsonlSource

        return JsonlSource(path)
    if extension == ".parquet":
        from shoal.work.tables.parquet import ParquetSource

        return ParquetSource(path)
    from shoal.work.tables.text import TextSource

    return TextSource(path, "\t" if extension == ".tsv" else ",")


def check_file(path: str) -> None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{path!r} cannot be read ({reason}).") from None
    if stat.S_ISDIR(found.st_mode):
        raise SpecError(f"{path} is a folder, not a table.", hint=f"Name a file in it: {', '.join(FORMATS)}.")
    extension = os.path.splitext(path)[1].lower()
    if extension not in FORMATS:
        raise SpecError(
            f"{path} is not a kind of table that is known ({extension or 'no extension'}).",
            hint=f"Save it as one of: {', '.join(FORMATS)}.",
        )
    if not stat.S_ISREG(found.st_mode):
        raise SpecError(f"{path} is not a regular file.")
    if not found.st_size:
        raise SpecError(f"{path} is empty: it has no bytes.", hint="Was it saved?")
    if not os.access(path, os.R_OK):
        raise SpecError(f"{path} may not be read by this user.", hint=f"chmod u+r {path}")


def missing(path: str) -> NotFound:
    """The error for a table that is not there, with the nearest name that is."""
    folder, name = os.path.split(path)
    try:
        names = [other for other in os.listdir(folder or ".") if other.lower().endswith(FORMATS)]
    except OSError:
        return NotFound(f"There is no table {path}: there is no folder {folder}.")
    hint = nearest(name, names) if names else f"There is no table in {folder or 'this folder'} at all."
    return NotFound(f"There is no table {path}.", hint=hint)


def check_names(columns: Sequence[str], source: Source, problems: Problems) -> None:
    """Blank, reserved, repeated and too many names."""
    if len(columns) > LARGEST_WIDTH:
        raise problems.fail(f"has {len(columns):,} columns; {LARGEST_WIDTH:,} is the most")
    places: dict[str, list[str]] = {}
    for index, name in enumerate(columns):
        places.setdefault(name, []).append(source.place(index))
    for place in places.pop("", ()):
        problems.add("a column has no name", at=place, hint="Name it, or delete the column.")
    for name, where in places.items():
        if name in RESERVED:
            problems.add(f"the name {name!r} is reserved for results", at=where[0], hint="Rename the column.")
        if len(where) > 1:
            sentence = f"the name {name!r} stands {len(where)} times"
            problems.add(sentence, at=" and ".join(where[:5]), hint="Names must differ.")
