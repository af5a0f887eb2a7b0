"""What goes to stdout and stderr: text, and JSON that every parser reads. Needs no click, which is slow to load."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from shoal.errors import ShoalError
from shoal.words import printable

Row = Mapping[str, Any]

WIDEST = 60
"""Characters of one cell in a table; the rest is in the CSV and the JSON."""


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
