"""Reads .xlsx tables: the first visible sheet, row by row. Formulas are not computed: saved results are read.

Not openpyxl, trusted as it is: importing it takes longer than all else that happens before the first trial,
and it cannot tell a formula without a saved result from a blank. The tests hold this reader against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zipfile import ZipFile

from shoal.spec.command import Cell
from shoal.work.tables.table import BLANK, LARGEST_WIDTH, CellError, CellMemory, Problems, plain_cell
from shoal.work.tables.workbook import (
    BrokenError,
    Workbook,
    number_cell,
    number_style,
    open_archive,
    parse_part,
    read_number_formats,
    read_strings,
    read_workbook,
    unescape,
)

OPEN_AND_SAVE = "Open the workbook in a spreadsheet program and save it, so that it holds the result."
NAMESPACES = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)
TAGS = {f"{space} {tag}": tag for space in NAMESPACES for tag in ("row", "c", "v", "f", "t", "rPh")}
DEEPEST = 64


class Found(NamedTuple):
    """A cell as it stands in the sheet; equal ones make equal cells."""

    kind: str
    style: str
    text: str | None
    formula: bool


class XlsxSource:
    """A table in a workbook. Booleans have the text TRUE and FALSE, as people see them and export them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: list[str] = []

    def place(self, index: int) -> str:
        return f"column {letters(index)}"

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        with open_archive(self._path, problems) as archive:
            records = self._records(archive, problems)
            self._names = [cell.text for cell in next(records, [])]
            return self._names, sum(1 for _ in records)

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        with open_archive(self._path, problems) as archive:
            records = self._records(archive, problems)
            if [cell.text for cell in next(records, [])] != self._names:
                raise problems.fail("has other columns than when it was opened")
            for index, record in enumerate(records):
                problems.raise_any()
                if index >= start:
                    yield tuple(record)
            problems.raise_any()

    def _records(self, archive: ZipFile, problems: Problems) -> Iterator[list[Cell]]:
        """The header, then every row that is not blank, each as wide as the header."""
        workbook = read_workbook(archive)
        cells = CellMemory(CellMaker(archive, workbook).make)
        width = 0
        for number, found in sheet_rows(archive, workbook.sheet):
            record = [BLANK] * (width or max(found, default=-1) + 1)
            for column, cell in found.items():
                try:
                    put(record, column, cells[cell])
                except CellError as bad:
                    problems.add(bad.sentence, at=f"cell {letters(column)}{number}", hint=bad.hint)
                    if column < len(record):
                        record[column] = Cell(
                            None, " ?"
                        )  # not blank: the row is there, and the error will be told
            while not width and record and not record[-1].text.strip():
                record.pop()
            if any(cell.text.strip() for cell in record):
                width = width or len(record)
                yield record


def put(record: list[Cell], column: int, cell: Cell) -> None:
    if column < len(record):
        record[column] = cell
    elif cell.text.strip():
        raise CellError(
            "no column name stands above", hint="Name the column in the header row, or clear the cells."
        )


class CellMaker:
    """Turns what stands in the sheet into cells, with the strings and number formats of the workbook."""

    def __init__(self, archive: ZipFile, workbook: Workbook) -> None:
        self._strings = read_strings(archive, workbook.strings)
        self._styles = [number_style(code) for code in read_number_formats(archive, workbook.styles)]
        self._from_1904 = workbook.from_1904

    def make(self, found: Found) -> Cell:
        kind, style, text, formula = found
        if formula and text is None and kind != "str":
            raise CellError("a formula has no saved result", hint=OPEN_AND_SAVE)
        if text is None:
            return BLANK
        if kind == "n":
            return number_cell(text, self._style(style), self._from_1904)
        if kind == "s":
            return plain_cell(self._string(text))
        if kind in ("str", "inlineStr"):
            return plain_cell(unescape(text))
        if kind == "b":
            return Cell(True, "TRUE") if text.strip() in ("1", "true") else Cell(False, "FALSE")
        if kind == "d":
            return plain_cell(text)
        raise CellError(
            f"the error {text}" if kind == "e" else f"the unknown cell type {kind!r}", hint="Correct it."
        )

    def _style(self, style: str) -> str:
        index = int(style) if style.isdecimal() else 0
        return self._styles[index] if index < len(self._styles) else ""

    def _string(self, text: str) -> str:
        try:
            return self._strings[int(text)]
        except (ValueError, IndexError):
            raise BrokenError(f"string {text!r} is not in the workbook") from None


def sheet_rows(archive: ZipFile, part: str) -> Iterator[tuple[int, dict[int, Found]]]:
    """Each row of the sheet that has cells with something in them: its number, and the cells by column."""
    sheet = SheetParser()
    for _ in parse_part(archive, part, sheet.start, sheet.end, sheet.text):
        yield from sheet.rows
        sheet.rows.clear()


class SheetParser:
    """Gathers rows from the events of an XML parser. The sheet's own word on its size is not asked for."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[int, Found]]] = []
        self._row: dict[int, Found] = {}
        self._number = 0
        self._column = -1
        self._columns: dict[str, int] = {}
        self._depth = 0
        self._cell: dict[str, str] | None = None
        self._parts: list[str] | None = None  # the text being read, when it is text that counts
        self._text: str | None = None
        self._formula = False
        self._phonetic = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BrokenError("elements are nested too deeply")
        tag = TAGS.get(name)
        if tag == "c":
            self._cell, self._text, self._formula = attributes, None, False
            self._column = self._column_of(attributes.get("r"))
        elif tag == "v" or (tag == "t" and not self._phonetic):
            self._parts = []
        elif tag == "f":
            self._formula = True
        elif tag == "rPh":
            self._phonetic = True
        elif tag == "row":
            number = attributes.get("r", "")
            self._number = int(number) if number.isdecimal() else self._number + 1
            self._column = -1

    def text(self, text: str) -> None:
        if self._parts is not None:
            self._parts.append(text)

    def end(self, name: str) -> None:
        self._depth -= 1
        tag = TAGS.get(name)
        if tag in ("v", "t"):
            if self._parts:
                self._text = (self._text or "") + "".join(self._parts)
            self._parts = None
        elif tag == "c" and self._cell is not None:
            if self._text is not None or self._formula:
                cell = self._cell
                kind, style = cell.get("t", "n"), cell.get("s", "")
                self._row[self._column] = Found(kind, style, self._text, self._formula)
            self._cell = None
        elif tag == "rPh":
            self._phonetic = False
        elif tag == "row" and self._row:
            self.rows.append((self._number, self._row))
            self._row = {}

    def _column_of(self, reference: str | None) -> int:
        if reference is None:
            return self._column + 1
        name = reference.rstrip("0123456789")
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = column_index(name)
        return column


def column_index(name: str) -> int:
    """`A` is 0, `AA` is 26."""
    index = 0
    for letter in name.upper()[:4]:
        index = index * 26 + ord(letter) - 64
    if not (name.isascii() and name.isalpha() and index <= LARGEST_WIDTH):
        raise BrokenError(f"{name!r} is no column")
    return index - 1


def letters(index: int) -> str:
    """0 is `A`, 26 is `AA`."""
    name = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        name = chr(65 + letter) + name
    return name
