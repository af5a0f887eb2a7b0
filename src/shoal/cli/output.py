"""What goes to stdout, value by value: JSON that every parser reads, text without control characters."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from shoal.api.display.words import printable

Row = Mapping[str, Any]

WIDEST = 60
"""Characters of one cell in a table; the rest is in the CSV and the JSON."""


def echo_json(value: Any) -> None:
    """One document. Not-a-number and infinity, which JSON does not have, become null."""
    click.echo(json.dumps(strict(value), indent=2, allow_nan=False, default=str))


def echo_json_rows(rows: Iterable[Row]) -> None:
    """One document, a list of rows, written as they come."""
    before = "[\n"
    for row in rows:
        click.echo(before + json.dumps(strict(row), allow_nan=False, default=str), nl=False)
        before = ",\n"
    click.echo("\n]" if before == ",\n" else "[]")


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
    text = printable(value if isinstance(value, str) else json.dumps(value, default=str))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def timestamp(at: float | None) -> str | None:
    """ISO-8601 in UTC, as result rows have it."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_time(at: float | None) -> str:
    """For people: the time where they are."""
    return "" if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def is_terminal(stream: Any = None) -> bool:
    """Whether a person watches this stream; stdout when none is given."""
    try:
        return bool((stream or sys.stdout).isatty())
    except (AttributeError, ValueError):
        return False
