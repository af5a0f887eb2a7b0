"""What goes to stdout and stderr: text, tables, and JSON that every parser reads. Needs no click."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Any

from shoal.errors import ShoalError
from shoal.words import printable

Row = Mapping[str, Any]

WIDEST = 60
"""Characters of one cell in a table; the rest is in the CSV and the JSON."""
GAP = "  "
MEASURED = 1000
"""Rows that column widths are taken from, so that a long table starts at once."""
LEAST = ("item", "state", "seconds", "error")
"""Columns that are left out only where they are empty."""
FIRST_TO_GO = ("started", "attempt", "node")
ERROR_WIDTH = 24


class ReaderGoneError(Exception):
    """Nobody reads our results any more (`shoal ls | head -1`). Not an OSError: those click takes for its own."""


def echo(text: str = "", *, end: str = "\n") -> None:
    """A result, on stdout. Raises `ReaderGoneError`."""
    with _writing():
        sys.stdout.write(text + end)


def echo_bytes(data: bytes) -> None:
    """Output of somebody else's program, as it is, at once. Raises `ReaderGoneError`."""
    with _writing():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise ShoalError(f"The output cannot be written: {error.strerror or error}.") from error


def say(text: str = "") -> None:
    """Everything else, on stderr, after what was printed before it. Never fails: nothing depends on it."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def echo_json(value: Any) -> None:
    """One document. Not-a-number and infinity, which JSON does not have, become null."""
    echo(json.dumps(strict(value), indent=2, allow_nan=False, default=str))


def echo_json_rows(rows: Iterable[Row]) -> None:
    """One document, a list of rows, written as they come."""
    before = "[\n"
    for row in rows:
        echo(before + json.dumps(strict(row), allow_nan=False, default=str), end="")
        before = ",\n"
    echo("\n]" if before == ",\n" else "[]")


def echo_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A line for the columns and one for each row, written as they come. Truths, lists and mappings are JSON."""
    import csv
    import io

    for cells in chain([columns], rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            json.dumps(value) if isinstance(value, bool | list | dict) else value for value in cells
        )
        echo(line.getvalue(), end="")


def strict(value: Any) -> Any:
    """The value as strict JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): strict(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [strict(entry) for entry in value]
    return value


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = printable(value if isinstance(value, str) else json.dumps(_rounded(value), default=str))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def _rounded(value: Any) -> Any:
    """Numbers in a list with as many digits as those that stand alone."""
    if isinstance(value, list):
        return [_rounded(each) for each in value[:WIDEST]]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def timestamp(at: float | None) -> str | None:
    """ISO-8601 in UTC, as result rows have it."""
    from datetime import UTC, datetime

    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_time(at: float | None) -> str:
    """For people: the time where they are."""
    from datetime import datetime

    return "" if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def ago(age_s: float) -> str:
    """For people: how long ago, in one unit."""
    if age_s < 5:
        return "just now"
    for length_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if age_s >= length_s:
            return f"{age_s // length_s:.0f} {unit} ago"
    return f"{age_s:.0f} s ago"


def is_terminal(stream: Any = None) -> bool:
    """Whether a person watches this stream; stdout when none is given."""
    try:
        return bool((stream or sys.stdout).isatty())
    except (AttributeError, ValueError):
        return False


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
    import shutil

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
