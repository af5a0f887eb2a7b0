"""Tables of rows: plain text, or drawn by rich on a terminal, where columns that do not fit are left out."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from shoal.cli.output import Row, cell, echo, is_terminal
from shoal.words import printable

GAP = "  "
MEASURED = 1000
"""Rows that column widths are taken from, so that a long table starts at once."""
LEAST = ("item", "state", "seconds", "error")
"""Columns that are left out only where they are empty."""
FIRST_TO_GO = ("started", "attempt", "node")
ERROR_WIDTH = 24


def lines(columns: Sequence[str], rows: Iterable[Row], *, indent: str = "") -> Iterator[str]:
    """A plain table: numbers to the right, everything else to the left."""
    waiting = iter(rows)
    first = list(islice(waiting, MEASURED))
    cells = [[shown(row, name) for name in columns] for row in first]
    right = [_is_numeric(first, name) for name in columns]
    widths = [_width(first, name) for name in columns]
    yield indent + _line([printable(name) for name in columns], widths, right)
    for line in cells:
        yield indent + _line(line, widths, right)
    for row in waiting:
        yield indent + _line([shown(row, name) for name in columns], widths, right)


def shown(row: Row, name: str) -> str:
    """One cell; seconds are not worth more than three digits behind the point."""
    value = row.get(name)
    return f"{value:.3f}" if name == "seconds" and isinstance(value, float) else cell(value)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = zip(cells, widths, right, strict=True)
    return GAP.join(c.rjust(width) if to_right else c.ljust(width) for c, width, to_right in parts).rstrip()


def _width(rows: Sequence[Row], name: str) -> int:
    return max([len(printable(name)), *(len(shown(row, name)) for row in rows)])


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    found = [row[name] for row in rows if row.get(name) is not None]
    return bool(found) and all(isinstance(value, int | float) for value in found)


def telling(columns: Sequence[str], rows: Sequence[Row], keep: Sequence[str] = ()) -> list[str]:
    """The columns that tell something: not empty, and not the same in every row."""
    wanted = {"item", "state", "seconds", *keep}
    return [name for name in columns if name in wanted or _tells(name, rows)]


def _tells(name: str, rows: Sequence[Row]) -> bool:
    values = [shown(row, name) for row in rows]
    if name == "started" or not any(values):
        return False
    return name == "error" or len(set(values)) > 1 or len(rows) == 1


def fitting(columns: Sequence[str], rows: Sequence[Row], width: int, keep: Sequence[str] = ()) -> list[str]:
    """As many columns as fit: first what is known about the trial goes, then what differs least between rows."""
    chosen = [name for name in columns if name in keep or any(shown(row, name) for row in rows)]
    widths = {name: _width(rows, name) + len(GAP) for name in chosen}
    if "error" in widths:
        widths["error"] = min(widths["error"], ERROR_WIDTH)
    spare = [name for name in reversed(chosen) if name not in (*LEAST, *FIRST_TO_GO, *keep)]
    spare.sort(key=lambda name: len({shown(row, name) for row in rows}))
    for name in (*FIRST_TO_GO, *spare):
        if sum(widths[each] for each in chosen) <= width:
            break
        if name in chosen and name not in keep:
            chosen.remove(name)
    return chosen


def show(columns: Sequence[str], rows: Iterable[Row], keep: Sequence[str] = ()) -> list[str]:
    """Print a table to stdout; the columns that found no room."""
    if not is_terminal():
        for line in lines(columns, rows):
            echo(line)
        return []
    found = list(rows)
    chosen = fitting(columns, found, shutil.get_terminal_size().columns, keep)
    draw(chosen, found)
    return [name for name in columns if name not in chosen and any(shown(row, name) for row in found)]


def draw(columns: Sequence[str], rows: Sequence[Row], *, stderr: bool = False) -> None:
    """A table by rich. Cells are text, never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for name in columns:
        right = _is_numeric(rows, name)
        drawn.add_column(
            Text(printable(name)),
            justify="right" if right else "left",
            overflow="ellipsis",
            no_wrap=True,
        )
    for row in rows:
        drawn.add_row(*(Text(shown(row, name), style=_style(name, row)) for name in columns))
    Console(stderr=stderr, highlight=False).print(drawn)


def _style(column: str, row: Row) -> str:
    if column == "state":
        colours: dict[Any, str] = {"done": "green", "succeeded": "green", "failed": "red", "running": "cyan"}
        return colours.get(row.get("state"), "yellow")
    return "red" if column == "error" else ""
