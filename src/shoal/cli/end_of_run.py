"""What `shoal run` says at the end: results, the best or averages on stdout; all about the run on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.api.session import read_only
from shoal.cli import output
from shoal.cli.output import ReaderGoneError, echo, echo_csv, echo_json, echo_json_rows, say
from shoal.units import format_seconds
from shoal.work.kind import kind_of

if TYPE_CHECKING:
    from shoal.api.views.averages import Averages
    from shoal.model.record import Summary
    from shoal.store import RunStore
    from shoal.work.kind import Excerpt, Kind


FAILURES_SHOWN = 3
SPREAD = "±"
"""How people write the standard deviation."""
AVERAGES_SHOWN = 50


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
    with read_only(summary.folder) as store:
        lines = _tell_results(store, summary)
    for line in lines:
        say(line)


def _tell_results(store: RunStore, summary: Summary) -> list[str]:
    """Print what the run gave; the lines that are to be said of it."""
    kind = kind_of(summary.kind)
    lines = (
        tell_averages(store) if kind.is_averaged(store) else _tell_rows(store.run, kind.excerpt(store), kind)
    )
    return [*lines, *_end(store, summary, kind)]


def _tell_rows(run: str, found: Excerpt, kind: Kind) -> list[str]:
    hidden: list[str] = []
    if found.rows:
        every = kind.has_output
        columns = found.columns if every else output.telling(found.columns, found.rows, found.objective)
        hidden = output.show(columns, found.rows, [name for name in found.metrics if name in columns])
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
        *output.lines(words.TIME_COLUMNS, words.time_rows(summary.workers), indent="  "),
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


def echo_averages(store: RunStore, form: str, best: int | None) -> None:
    """All columns, in one of the formats of `shoal results`."""
    from shoal.api.views.lookup import averages

    found = averages(store, best=best)
    if form == "json":
        echo_json_rows(found.rows)
    elif form == "csv":
        echo_csv(found.columns, (row.values() for row in found.rows))
    else:
        _show(found, found.columns)


def _show(found: Averages, columns: Sequence[str]) -> None:
    """A table, in which the deviation is headed by its sign."""
    heads = {name: SPREAD if name == found.deviation else name for name in columns}
    rows = [{heads[name]: row[name] for name in columns} for row in found.rows]
    keep = [heads[name] for name in (*found.parameters, found.metric, found.deviation) if name in heads]
    hidden = output.show([heads[name] for name in columns], rows, keep)
    if hidden:
        names = words.shortened(", ".join(hidden), 60)
        say(f"No room for: {names}; --format csv has all columns.")


def tell_averages(store: RunStore) -> list[str]:
    """The parameters that differ and what counts most; the lines that are to be said of them."""
    from shoal.api.views.lookup import averages

    found = averages(store)
    shown = found._replace(rows=found.rows[:AVERAGES_SHOWN])
    differing = output.telling(found.parameters, found.rows)
    wanted = {*differing, found.counted, found.failed, found.metric, found.deviation, "seconds"}
    if found.rows:
        _show(shown, [name for name in found.columns if name in wanted])
    objective = store.info().objective
    best = found.best(objective[1], 1) if objective is not None else []
    if best and found.metric is not None:
        echo(f"Best on average: {_in_words(best[0], found, found.metric)}")
    what = (
        f"the first {AVERAGES_SHOWN} of {len(found.rows)} averages"
        if len(found.rows) > AVERAGES_SHOWN
        else "averages"
    )
    return ["", f"Shown are {what}; all their numbers: shoal results {store.run} --average"]


def _in_words(row: dict[str, Any], found: Averages, metric: str) -> str:
    spread = row[found.deviation]
    apart = f" {SPREAD} {words.number(spread)}" if spread is not None else ""
    params = words.parameters({name: row[name] for name in found.parameters}, 200)
    return f"{metric} {words.number(row[metric])}{apart} with {params} (of {row[found.counted]})"
