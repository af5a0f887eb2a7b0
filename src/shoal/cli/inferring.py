"""What is said of an inference: the first rows of its output on stdout, how it went on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal.api import inference
from shoal.api.display import words
from shoal.cli import tables
from shoal.cli.output import echo, is_terminal, say
from shoal.errors import NotFound
from shoal.units import format_seconds

if TYPE_CHECKING:
    from shoal.api.summary import Summary
    from shoal.store import RunStore

ROWS_SHOWN = 10


def tell_rows(store: RunStore, summary: Summary) -> list[str]:
    """The first rows; the lines that are to be said of them and of the run."""
    lines = [""]
    try:
        rows = list(inference.rows(store, ROWS_SHOWN + 1))
        lines += [f"Note: {sentence}"] if (sentence := inference.gone(store)) is not None else []
    except NotFound as error:
        rows = []
        lines.append(f"{error}")
    if rows:
        hidden = tables.show(list(rows[0]), rows[:ROWS_SHOWN])
        if len(rows) > ROWS_SHOWN:
            lines.append(f"Shown are the first {ROWS_SHOWN} rows; all: shoal results {summary.run}")
        if hidden:
            names = words.shortened(", ".join(hidden), 60)
            lines.append(f"No room for: {names}; all columns: shoal results {summary.run} --format csv")
    return lines + inference.in_words(store) + _chosen(summary)


def _chosen(summary: Summary) -> list[str]:
    """What the tuner settled on, in one line for each kind of node; nothing where nothing was done."""
    document = summary.infer or {}
    kinds: dict[str, dict[str, Any]] = {}
    for decision in document.get("decisions", ()):
        name, _, kind = decision["name"].partition(" on ")
        kinds.setdefault(kind, {})[name] = decision["choice"]
    if not document.get("rows"):
        return []
    return [
        f"Chosen{f' on {kind}' if kind else ''}: {_point(chosen)}; why: shoal show {summary.run} --why"
        for kind, chosen in kinds.items()
    ]


def _point(chosen: Mapping[str, Any]) -> str:
    """`onnxruntime, batch 16, 2 workers with 1 thread, 96.4 MiB each`."""
    parts = [str(chosen.get("runtime", "")), f"batch {chosen.get('batch')}"]
    workers, threads = chosen.get("workers"), chosen.get("threads")
    parts.append(f"{words.some(workers, 'worker')} with {words.some(threads, 'thread')}")
    if chosen.get("memory") is not None:
        parts.append(f"{words.choice('memory', chosen['memory'])} each")
    return ", ".join(part for part in parts if part)


def how_it_ended(summary: Summary) -> str:
    """`photos-1c6a succeeded: 60 rows, 2 errors in 2.0s.`, and the items that are not simply done."""
    document = summary.infer or {}
    done = [words.some(document.get("rows", 0), "row")]
    if document.get("errors"):
        done.append(words.some(document["errors"], "error"))
    others = words.counts({state: count for state, count in summary.items.items() if state != "done"})
    if others:
        done.append(f"items {others}")
    line = f"{summary.run} {summary.state}: {', '.join(done)} in {format_seconds(summary.seconds)}"
    if summary.predicted_seconds is not None and summary.state in ("succeeded", "failed"):
        line += f"; predicted {words.prediction(summary.predicted_seconds)}"
    return f"{line}."


def same_failures(failures: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each reason, with the items that it is true of: what is wrong with a model fails all of them."""
    items: dict[str, list[str]] = {}
    for item, error in failures:
        items.setdefault(words.sentence(error), []).append(item)
    return [f"Failed: {', '.join(found)}: {reason}" for reason, found in items.items()]


def tell_gone(store: RunStore) -> None:
    """Rows that somebody removed are missed in what is printed."""
    if (sentence := inference.gone(store)) is not None:
        say(f"Note: {sentence}")


def echo_rows(store: RunStore, form: str, most_on_screen: int) -> None:
    """All rows, as a table or as CSV."""
    rows = inference.rows(store)
    tell_gone(store)
    if form == "csv":
        _echo_csv(rows)
        return
    first = list(islice(rows, most_on_screen if is_terminal() else None))
    if not first:
        say("There are no rows yet." if store.state().is_active else "There are no rows.")
        return
    hidden = tables.show(list(first[0]), first)
    if next(rows, None) is not None:
        say(f"Shown are the first {most_on_screen}; --format csv has all rows.")
    if hidden:
        say(f"No room for: {words.shortened(', '.join(hidden), 60)}; --format csv has all columns.")


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
