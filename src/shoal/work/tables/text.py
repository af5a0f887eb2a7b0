"""Reads .csv, .tsv and .jsonl tables. Cells are typed only when rows are asked for."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from json import JSONDecodeError, JSONDecoder
from typing import Any, TextIO

from shoal.spec.command import Cell
from shoal.work.tables.table import (
    BLANK,
    LARGEST_WIDTH,
    CellError,
    CellMemory,
    Problems,
    compact_json,
    text_cell,
    value_cell,
)

PIECE_BYTES = 1 << 20
SAVE_AS_UTF8 = "Save the table as UTF-8 (in a spreadsheet program: CSV UTF-8)."
ONE_A_LINE = 'Write one JSON object a line, such as {"lr": 0.1, "model": "lstm"}.'


class TextSource:
    """A table of delimited text: quotes as in CSV, `;` where the header has it instead of a comma."""

    def __init__(self, path: str, delimiter: str) -> None:
        self._path = path
        self._delimiter = delimiter
        self._names: list[str] = []

    def place(self, index: int) -> str:
        return f"column {index + 1}"

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        records = self._records(problems)
        self._names = next(records, [])
        return self._names, sum(1 for _ in records)

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        cell_of = CellMemory(text_cell).__getitem__
        records = self._records(problems)
        if next(records, []) != self._names:
            raise problems.fail("has other columns than when it was opened")
        for record in islice(records, start, None):
            problems.raise_any()
            yield tuple(map(cell_of, record))
        problems.raise_any()

    def _records(self, problems: Problems) -> Iterator[list[str]]:
        """The header, then every row that is not blank, each as wide as the header."""
        with open_text(self._path, problems) as file:
            delimiter = find_delimiter(file) if self._delimiter == "," else self._delimiter
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            width = -1
            line = 0
            try:
                for record in reader:
                    if len(record) != width or not record[0].strip():
                        if not any(map(str.strip, record)):
                            line = reader.line_num
                            continue
                        width = named_width(record) if width < 0 else width
                        fit(record, width, line + 1, problems)
                    yield record
                    line = reader.line_num
            except csv.Error as error:
                problems.add(quoting(error), at=f"the row at line {line + 1}")
            except UnicodeDecodeError:
                raise problems.fail("changed while it was being read", hint=SAVE_AS_UTF8) from None


def find_delimiter(file: TextIO) -> str:
    """`;` where the first line that is not blank has it and has no comma; leaves the file at its start."""
    header = next((line for line in file if line.strip()), "")
    file.seek(0)
    return ";" if ";" in header and "," not in header else ","


def named_width(header: list[str]) -> int:
    """How many columns there are up to the last that has a name."""
    width = len(header)
    while not header[width - 1].strip():
        width -= 1
    return width


def fit(record: list[str], width: int, line: int, problems: Problems) -> None:
    """Make the row as wide as the header: blanks are added or dropped, more than blanks is a problem."""
    if any(map(str.strip, record[width:])):
        problems.add(
            f"more cells than the header has columns ({width:,})",
            at=f"line {line}",
            hint="Put quotes around cells that contain the delimiter, or name every column.",
        )
    record[width:] = [""] * (width - len(record))


def quoting(error: csv.Error) -> str:
    """Why the row could not be split into cells, in words for people."""
    text = str(error)
    if "end of data" in text:
        return "a quoted cell is never closed, so reading stopped at"
    if "field limit" in text:
        return f"a cell is longer than {csv.field_size_limit():,} characters (an open quote?) in"
    if "expected after" in text:
        return "text follows the closing quote of a cell in"
    return f"cannot be split into cells ({text}) in"


def open_text(path: str, problems: Problems) -> TextIO:
    """The file as text, once it is known to be UTF-8 without NULs; the error says where it is not."""
    check_text(path, problems)
    return open(path, encoding="utf-8-sig", newline="")


def check_text(path: str, problems: Problems) -> None:
    if is_clean(path):
        return
    sentence, where = first_bad_byte(path)
    raise problems.fail(sentence, at=where, hint=SAVE_AS_UTF8)


def is_clean(path: str) -> bool:
    from codecs import getincrementaldecoder

    decode = getincrementaldecoder("utf-8")().decode
    with open(path, "rb") as file:
        try:
            while piece := file.read(PIECE_BYTES):
                if b"\0" in piece:
                    return False
                decode(piece)
            decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def first_bad_byte(path: str) -> tuple[str, str | None]:
    """What keeps the file from being text, and where; bytes are counted from 0, lines from 1."""
    offset = 0
    with open(path, "rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return "is UTF-16 text, not UTF-8", None
        file.seek(0)
        for number, line in enumerate(file, 1):
            nul = line.find(b"\0")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                if nul < 0 or error.start < nul:
                    sentence = f"has a byte that is not UTF-8 (0x{line[error.start]:02x})"
                    return sentence, f"line {number}, byte {offset + error.start:,}"
            if nul >= 0:
                return "has a NUL byte, so it is not text", f"line {number}, byte {offset + nul:,}"
            offset += len(line)
    return "changed while it was being read", None


class JsonlSource:
    """A table of JSON lines. A key that an object lacks is a blank; keys that came later are not read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._keys: dict[str, int] = {}

    def place(self, index: int) -> str:
        key, line = list(self._keys.items())[index]
        return f"key {key!r} in line {line}"

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        keys: dict[str, int] = {}
        count = 0
        for line, record in self._records(problems):
            count += 1
            if not record.keys() <= keys.keys():
                for key in record:
                    keys.setdefault(key, line)
                if len(keys) > LARGEST_WIDTH:
                    raise problems.fail(f"has more than {LARGEST_WIDTH:,} different keys", at=f"line {line}")
        self._keys = keys
        return list(keys), count

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        keys = tuple(self._keys)
        for _, record in islice(self._records(problems), start, None):
            problems.raise_any()
            yield tuple([value_cell(record[key]) if key in record else BLANK for key in keys])
        problems.raise_any()

    def _records(self, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        decode = JSONDecoder(object_pairs_hook=object_of).decode
        with open_text(self._path, problems) as file:
            for line, text in enumerate(file, 1):
                if text.isspace():
                    continue
                try:
                    yield line, record_of(text, decode)
                except CellError as bad:
                    problems.add(bad.sentence, at=f"line {line}{bad.hint or ''}", hint=ONE_A_LINE)


def record_of(text: str, decode: Callable[[str], Any]) -> dict[str, Any]:
    """The object in a line; the hint of a `CellError` is where in the line it broke."""
    try:
        record = decode(text)
    except JSONDecodeError as error:
        raise CellError("not valid JSON", hint=f" ({error.msg} at character {error.pos + 1})") from None
    except (ValueError, RecursionError) as error:
        raise CellError("not usable JSON", hint=f" ({error})") from None
    if not isinstance(record, dict):
        raise CellError("not a JSON object", hint=f" ({type(record).__name__})")
    if "\\u" in text:
        check_escapes(record)
    return record


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return record


def check_escapes(record: dict[str, Any]) -> None:
    """Refuse text that was escaped into the line and that no command line can hold."""
    try:
        compact_json(record).encode()
    except UnicodeEncodeError:
        raise CellError("half of a surrogate pair, which is not text") from None
    for value in record.values():
        value_cell(value)
