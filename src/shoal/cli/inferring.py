"""What is said of an inference: the first rows of its output on stdout, how it went on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal.api import inference
from shoal.cli import tables
from shoal.cli.output import echo, is_terminal, say

if TYPE_CHECKING:
    from shoal.api.summary import Summary
    from shoal.store import RunStore

ROWS_SHOWN = 10


def tell_rows(store: RunStore, summary: Summary) -> list[str]:
    """The first rows; the lines that are to be said of them and of the run."""
    rows = list(islice(inference.rows(store, ROWS_SHOWN + 1), ROWS_SHOWN + 1))
    if rows:
        tables.show(list(rows[0]), rows[:ROWS_SHOWN])
    lines = [""]
    if len(rows) > ROWS_SHOWN:
        lines.append(f"Shown are the first {ROWS_SHOWN} rows; all: shoal results {summary.run}")
    lines += inference.in_words(store)
    for decision in inference.decisions(store):
        lines.append(f"{decision['name']}: {decision['choice']} ({decision['why']})")
    return lines


def echo_rows(store: RunStore, form: str, most_on_screen: int) -> None:
    """All rows, as a table or as CSV."""
    rows = inference.rows(store)
    if form == "csv":
        _echo_csv(rows)
        return
    first = list(islice(rows, most_on_screen if is_terminal() else None))
    if first:
        tables.show(list(first[0]), first)
    if next(rows, None) is not None:
        say(f"Shown are the first {most_on_screen}; --format csv has all rows.")


def _echo_csv(rows: Iterator[dict[str, Any]]) -> None:
    import csv
    import io
    import json

    for number, row in enumerate(rows):
        line = io.StringIO()
        writer = csv.writer(line, lineterminator="\n")
        if number == 0:
            writer.writerow(row)
        writer.writerow(
            json.dumps(value) if isinstance(value, bool | list | dict) else value for value in row.values()
        )
        echo(line.getvalue(), end="")
