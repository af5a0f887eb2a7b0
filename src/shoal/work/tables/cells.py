"""How the text or value found in a table becomes a cell. It knows no file format.

In text (CSV, TSV) `12`, `0.5`, `1e-5`, `nan`, `inf` and `true` are typed, spaces around them or not. A number
with leading zeros (`007`) stays text: it is an identifier far more often. The text is kept as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from re import compile as compile_pattern
from typing import Any, TypeVar

from shoal.spec.cell import Cell
from shoal.work.tables.table_problems import CellError

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
