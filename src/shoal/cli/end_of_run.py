"""What `shoal run` says at the end: the results and the best on stdout; everything about the run on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from shoal import words
from shoal.api.display import time_spent
from shoal.cli import tables
from shoal.cli.output import ReaderGoneError, echo, echo_json, say
from shoal.units import format_seconds
from shoal.work.kind import kind_of

if TYPE_CHECKING:
    from shoal.api.summary import Summary
    from shoal.store import RunStore
    from shoal.work.kind import Excerpt, Kind

FAILURES_SHOWN = 3


def tell(summary: Summary, as_json: bool) -> int:
    """Say how the run ended; its exit code. That nobody reads it any more does not change how it ended."""
    with suppress(ReaderGoneError):
        if as_json:
            echo_json(summary.document())
            if summary.state == "stopped":
                say(f"Go on with: shoal resume {summary.run}")
        else:
            _tell_in_words(summary)
    return summary.exit_code


def _tell_in_words(summary: Summary) -> None:
    from shoal.api.views.lookup import open_run

    with open_run(summary.run) as store:
        lines = _tell_results(store, summary)
    for line in lines:
        say(line)


def _tell_results(store: RunStore, summary: Summary) -> list[str]:
    """Print what the run gave; the lines that are to be said of it."""
    kind = kind_of(summary.kind)
    if kind.is_averaged(store):
        from shoal.cli import averages_output

        lines = averages_output.tell_averages(store)
    else:
        lines = _tell_rows(store.run, kind.excerpt(store), kind)
    return [*lines, *_end(store, summary, kind)]


def _tell_rows(run: str, found: Excerpt, kind: Kind) -> list[str]:
    hidden: list[str] = []
    if found.rows:
        every = kind.has_output
        columns = found.columns if every else tables.telling(found.columns, found.rows, found.objective)
        hidden = tables.show(columns, found.rows, [name for name in found.metrics if name in columns])
    if found.best is not None:
        echo(f"Best: {found.best}")
    lines = ["", *found.before]
    if found.which:
        lines.append(f"Shown are {found.which}; all: shoal results {run}")
    if hidden:
        names = words.shortened(", ".join(hidden), 60)
        lines.append(f"No room for: {names}; all columns: shoal results {run} --format csv")
    return [*lines, *found.after]


def _end(store: RunStore, summary: Summary, kind: Kind) -> list[str]:
    """Where the time went, how it ended, and what to do now."""
    failures = _first_failures(store, summary)
    return [
        *_workers_used(summary),
        _how_it_ended(summary, kind),
        *(f"Note: {note}" for note in summary.notes),
        f"Results: {summary.results}",
        *_failures(store, summary, failures),
        *_next(summary),
    ]


def _wrote(store: RunStore, item: str) -> bool:
    """Whether there is anything in its log."""
    log = store.item(item).log
    return log is not None and log.end != log.start


def _first_failures(store: RunStore, summary: Summary) -> list[tuple[str, str]]:
    failed = islice(store.items(("failed",)), FAILURES_SHOWN) if summary.items.get("failed") else ()
    return [(record.item.id, record.error or "") for record in failed]


def _workers_used(summary: Summary) -> list[str]:
    if not summary.workers:
        return []
    return [
        "Where the time went:",
        *tables.lines(time_spent.COLUMNS, time_spent.rows(summary.workers), indent="  "),
    ]


def _how_it_ended(summary: Summary, kind: Kind) -> str:
    line = f"{summary.run} {summary.state}: {kind.counts(summary.items, summary.details or {})} in "
    line += format_seconds(summary.seconds)
    if summary.predicted_seconds is not None and summary.state in ("succeeded", "failed"):
        return f"{line}; predicted {words.prediction(summary.predicted_seconds)}."
    return f"{line}."


def _failures(store: RunStore, summary: Summary, failures: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each reason, with the items that it is true of: what is wrong with all is said once."""
    items: dict[str, list[str]] = {}
    for item, error in failures:
        items.setdefault(words.sentence(error), []).append(item)
    lines = [f"Failed: {', '.join(found)}: {reason}" for reason, found in items.items()]
    more = summary.items.get("failed", 0) - len(failures)
    if more > 0:
        lines.append(f"  and {more} more")
    logged = next((item for item, _ in failures if _wrote(store, item)), None)
    return lines if logged is None else [*lines, f"What it wrote: shoal logs {summary.run} {logged}"]


def _next(summary: Summary) -> list[str]:
    """What the user may want to do now."""
    if summary.state in ("stopped", "interrupted"):
        return [f"Go on with: shoal resume {summary.run}"]
    if summary.items.get("failed"):
        return [f"Try the failed ones again: shoal resume {summary.run} --failed"]
    return []
