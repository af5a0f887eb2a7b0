"""Reads .csv and .tsv tables. Cells are typed only when rows are asked for."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from typing import TextIO

from shoal.spec.command import Cell
from shoal.work.tables.table import (
    CellMemory,
    Problems,
    text_cell,
)

PIECE_BYTES = 1 << 20
SAVE_AS_UTF8 = "Save the table as UTF-8 (in a spreadsheet program: CSV UTF-8)."


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
