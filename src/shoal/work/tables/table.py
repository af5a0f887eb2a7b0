"""Tables of experiments: a row is a trial, a column a parameter; their cells, and all that is wrong with one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence
from re import compile as compile_pattern
from typing import Any, Protocol, TypeVar

from shoal.errors import NotFound, Problem, SpecError, nearest
from shoal.spec.command import RESERVED, Cell

FORMATS = (".xlsx", ".csv", ".tsv", ".jsonl", ".parquet")
CHANGED = "Leave the table alone while it is being read, then start again."
BLANK = Cell(None, "")
KEPT_CELLS = 8_192
KEPT_LENGTH = 40

_INTEGER = compile_pattern(r"[-+]?(?:0|[1-9][0-9]*)").fullmatch
_FLOAT = compile_pattern(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?").fullmatch
_NUMBER_STARTS = frozenset("0123456789+-.")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("nan", "NaN", "NAN", ".nan", ".NaN", ".NAN"), float("nan")),
    **{
        sign + word: float(sign + "inf")
        for sign in ("", "+", "-")
        for word in ("inf", "Inf", "INF", ".inf", ".Inf", ".INF", "Infinity")
    },
}
_BOOLEANS = {"true": True, "false": False}

Key = TypeVar("Key", bound=Hashable)
SHOWN_PLACES = 5
SHOWN_PROBLEMS = 20
LARGEST_WIDTH = 16_384  # columns; what a spreadsheet can hold


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
        from shoal.work.tables.json_lines import JsonlSource

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


class CellMemory(dict[Key, Cell]):
    """Cells made once and found again, since parameters repeat. Bounded, whatever the size of the table."""

    def __init__(self, make: Callable[[Key], Cell]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Cell:
        cell = self._make(key)
        if len(self) < KEPT_CELLS and len(cell.text) <= KEPT_LENGTH:
            self[key] = cell
        return cell


def text_cell(text: str) -> Cell:
    """The cell for text without a type of its own."""
    return Cell(_typed(text), text) if text else BLANK


def _typed(text: str) -> Any:
    bare = text.strip()
    if bare[:1] in _NUMBER_STARTS:
        try:
            if _INTEGER(bare):
                return int(bare)
            if _FLOAT(bare):
                return float(bare)
        except ValueError:  # more digits than Python turns into an integer
            return text
    if 3 <= len(bare) <= 9:
        found = _WORDS.get(bare)
        if found is None:
            found = _BOOLEANS.get(bare.lower())
        return text if found is None else found
    return text


def value_cell(value: Any) -> Cell:
    """The cell for a JSON value: text as it is, numbers as Python writes them, the rest as compact JSON."""
    if value is None:
        return BLANK
    if isinstance(value, str):
        return plain_cell(value)
    if isinstance(value, (bool, list, dict)):
        return Cell(value, compact_json(value))
    return Cell(value, repr(value))


def plain_cell(text: str) -> Cell:
    """The cell for text that is known to be text; refuses what no command line can hold."""
    if "\0" in text:
        raise CellError("text with a NUL character, which no command line can hold")
    return Cell(text, text) if text else BLANK


def compact_json(value: Any) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=False, separators=(",", ":"))


class CellError(Exception):
    """A cell that cannot be a parameter; the reader that catches it knows where the cell is."""

    def __init__(self, sentence: str = "", *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class Problems:
    """The problems of one table. A sentence true at many places is one problem that tells the first few."""

    __slots__ = ("_places", "_total", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._places: dict[Problem, list[str]] = {}
        self._total: dict[Problem, int] = {}

    def __bool__(self) -> bool:
        return bool(self._total)

    def add(self, sentence: str, *, at: str | None = None, hint: str | None = None) -> None:
        """Note a problem; `sentence` ends without a full stop, `at` names the line or cell."""
        problem = Problem(sentence, hint)
        places = self._places.setdefault(problem, [])
        self._total[problem] = self._total.get(problem, 0) + 1
        if at is not None and len(places) < SHOWN_PLACES:
            places.append(at)

    def raise_any(self) -> None:
        """Raise everything noted so far as one error; do nothing when there is nothing."""
        if self:
            raise self.error()

    def fail(self, sentence: str, *, at: str | None = None, hint: str | None = None) -> SpecError:
        """The error of everything noted so far and this, after which reading cannot go on."""
        self.add(sentence, at=at, hint=hint)
        return self.error()

    def error(self) -> SpecError:
        told = [Problem(self._told(problem), problem.hint) for problem in self._total]
        if len(told) > SHOWN_PROBLEMS:
            more = len(told) - SHOWN_PROBLEMS
            told[SHOWN_PROBLEMS:] = [Problem(f"{self.path}: and {more:,} more problems.")]
        hint = next((problem.hint for problem in told if problem.hint), None)
        return SpecError("\n".join(problem.message for problem in told), hint=hint, problems=told)

    def _told(self, problem: Problem) -> str:
        places = self._places[problem]
        if not places:
            return f"{self.path}: {problem.message}."
        more = self._total[problem] - len(places)
        rest = f" and {more:,} more" if more else ""
        return f"{self.path}: {problem.message}: {', '.join(places)}{rest}."
