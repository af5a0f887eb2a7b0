"""Cells (a value of a parameter, with its exact text) and command lines with `{column}` in them. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_QUOTED_OR_ESCAPED = r"""(?s)'[^']*'|"(?:\\.|[^"\\])*"|\\."""
_HOLE = re.compile("\0([0-9]+)\0")
RESERVED = ("item", "state", "attempt", "node", "started", "seconds", "error")
"""Columns that every result row has; a parameter may not be called like one of them."""


class Column(NamedTuple):
    """The place in an argument where a column's value goes."""

    name: str


Argument: TypeAlias = tuple[str | Column, ...]


def template(command: str) -> tuple[Argument, ...]:
    """The arguments of a command, each in pieces of text and columns. ValueError says what is wrong."""
    import shlex

    if "\0" in command:
        raise ValueError("a command cannot hold a NUL character")
    pieces: list[str | Column] = []

    def hole(match: re.Match[str]) -> str:
        pieces.append(_piece(match[0], command))
        return f"\0{len(pieces) - 1}\0"

    # What is in braces goes out of the way first, so that a column's name may hold spaces and quotes.
    marked = _BRACES.sub(hole, _joined(command))
    try:
        words = shlex.split(marked)
    except ValueError as error:
        raise ValueError(f"cannot be split like a shell does: {str(error).lower()}") from None
    if not words:
        raise ValueError("expected a command, found only blanks")
    return tuple(_argument(word, pieces) for word in words)


def placeholders(command: str) -> list[str]:
    """The columns that a command names, in order, each once."""
    names = [piece.name for argument in template(command) for piece in argument if isinstance(piece, Column)]
    return list(dict.fromkeys(names))


def fill(arguments: Sequence[Argument], values: Mapping[str, Any]) -> list[str]:
    """The arguments for one row: a `Cell` gives its text, None an empty text. KeyError for no such column."""
    return ["".join(_text(piece, values) for piece in argument) for argument in arguments]


def _joined(command: str) -> str:
    """Lines that end in a backslash go on in the next, as in a shell; shlex would keep the line break."""
    if "\\\n" not in command:
        return command
    return re.sub(_QUOTED_OR_ESCAPED, lambda found: "" if found[0] == "\\\n" else found[0], command)


def _text(piece: str | Column, values: Mapping[str, Any]) -> str:
    if not isinstance(piece, Column):
        return piece
    value = values[piece.name]
    return value.text if isinstance(value, Cell) else text_of(value)


def _piece(found: str, command: str) -> str | Column:
    if found in ("{{", "}}"):
        return found[0]
    if len(found) == 1:
        raise ValueError(f"a stray {found!r}; write {found * 2!r} for a brace, and {{NAME}} for a column")
    if not found[1:-1].strip():
        raise ValueError(f"{found!r} names no column; write '{{{{}}}}' for braces")
    return Column(found[1:-1])


def _argument(word: str, pieces: Sequence[str | Column]) -> Argument:
    """Put the pieces back where they were, text joined with the text beside it."""
    parts: list[str | Column] = []
    for i, part in enumerate(_HOLE.split(word)):
        piece = pieces[int(part)] if i % 2 else part
        if isinstance(piece, str) and parts and isinstance(parts[-1], str):
            parts[-1] += piece
        elif piece != "":
            parts.append(piece)
    return tuple(parts)


class Cell(NamedTuple):
    """`value` is typed (a blank is None); `text` is as it was written (a blank is empty)."""

    value: Any
    text: str

    @classmethod
    def of(cls, value: Any) -> Cell:
        """The cell for a value that was never written down, such as one from Python or a sampler."""
        return cls(value, text_of(value))


def text_of(value: Any) -> str:
    """How a value that comes without a text is written: as in a workload file."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"{value:+}".replace("+nan", ".nan").replace("+", "").replace("inf", ".inf")
    return str(value)
