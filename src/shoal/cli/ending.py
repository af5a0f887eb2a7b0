"""What `shoal run` says at the end: the results and the best on stdout; everything about the run on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.api.display import time_spent, words
from shoal.cli import tables
from shoal.cli.output import ReaderGoneError, echo, echo_json, say
from shoal.spec.cell import RESERVED
from shoal.units import format_seconds

if TYPE_CHECKING:
    from shoal.api.summary import Summary
    from shoal.store import RunStore

ROWS_SHOWN = 20
RANKED = 50_000
"""Up to so many items the best rows are looked for; beyond, the first ones are shown."""
FAILURES_SHOWN = 3


class Excerpt(NamedTuple):
    """As much of the results as is shown."""

    columns: list[str]
    rows: list[dict[str, Any]]
    which: str
    """What the rows are, when they are not all."""
    metrics: list[str]
    """The columns that hold metrics."""
    objective: tuple[str, str] | None
    failures: list[tuple[str, str]]
    """Item and error of the first few that failed."""


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
    from shoal.api.reading import open_run

    with open_run(summary.run) as store:
        lines = _tell_results(store, summary)
    for line in lines:
        say(line)


def _tell_results(store: RunStore, summary: Summary) -> list[str]:
    """Print what the run gave; the lines that are to be said of it."""
    if summary.kind == "infer":
        return _tell_inference(store, summary)
    if (store.kept().document or {}).get("average"):
        from shoal.cli import averaging

        return [*averaging.tell_averages(store), *_end(summary, _first_failures(store, summary))]
    return _tell_trials(store, summary)


def _tell_trials(store: RunStore, summary: Summary) -> list[str]:
    found = _excerpt(store, summary)
    metric = [found.objective[0]] if found.objective else []
    hidden: list[str] = []
    if found.rows:
        telling = tables.telling(found.columns, found.rows, metric)
        hidden = tables.show(telling, found.rows, [name for name in found.metrics if name in telling])
    if summary.best is not None and found.objective is not None:
        echo(f"Best: {best_in_words(summary.best, found.objective[0])}")
    return _about(summary, found, hidden)


def _tell_inference(store: RunStore, summary: Summary) -> list[str]:
    from shoal.cli import inferring

    lines = inferring.tell_rows(store, summary)
    failures = _first_failures(store, summary)
    logged = any(_wrote(store, item) for item, _ in failures)
    lines += [*_workers_used(summary), inferring.how_it_ended(summary), *_about_results(summary)]
    return lines + _failures(summary, failures, inferring.same_failures, logged=logged) + _next(summary)


def _wrote(store: RunStore, item: str) -> bool:
    """Whether there is anything in its log."""
    log = store.item(item).log
    return log is not None and log.end != log.start


def _first_failures(store: RunStore, summary: Summary) -> list[tuple[str, str]]:
    failed = islice(store.items(("failed",)), FAILURES_SHOWN) if summary.items.get("failed") else ()
    return [(record.item.id, record.error or "") for record in failed]


def _excerpt(store: RunStore, summary: Summary) -> Excerpt:
    total = sum(summary.items.values())
    objective = store.info().objective
    which, rows = "", []
    if total > ROWS_SHOWN:
        if objective is not None and total <= RANKED:
            rows, which = store.best(*objective, count=ROWS_SHOWN), "the best"
        if not rows:
            which = "the first"
    rows = rows or list(islice(store.rows(), ROWS_SHOWN))
    failures = _first_failures(store, summary)
    return Excerpt(store.columns(), rows, which, metrics_of(store), objective, failures)


def metrics_of(store: RunStore) -> list[str]:
    """The columns of a run that hold metrics."""
    params = next((record.item.params for record in store.items(limit=1)), {})
    return [name for name in store.columns() if name not in params and name not in RESERVED]


def best_in_words(row: Any, metric: str) -> str:
    """The best row in a line: what was measured, then what it was measured with."""
    column = f"metric.{metric}" if f"metric.{metric}" in row else metric
    about = (*RESERVED, column)
    rest = {name: value for name, value in row.items() if name not in about and value is not None}
    with_what = f" ({words.parameters(rest, 200)})" if rest else ""
    return f"{row['item']} with {column} {words.number(row[column])}{with_what}"


def _about(summary: Summary, found: Excerpt, hidden: Sequence[str]) -> list[str]:
    """The lines on stderr."""
    lines = [""]
    if found.which:
        lines.append(
            f"Shown are {found.which} {len(found.rows)} of {sum(summary.items.values())};"
            f" all: shoal results {summary.run}"
        )
    if hidden:
        names = words.shortened(", ".join(hidden), 60)
        lines.append(f"No room for: {names}; all columns: shoal results {summary.run} --format csv")
    return lines + _end(summary, found.failures)


def _end(summary: Summary, failures: Sequence[tuple[str, str]]) -> list[str]:
    """Where the time went, how it ended, and what to do now."""
    lines = [*_workers_used(summary), _how_it_ended(summary), *_about_results(summary)]
    return lines + _failures(summary, failures, _each_failure) + _next(summary)


def _workers_used(summary: Summary) -> list[str]:
    if not summary.workers:
        return []
    return [
        "Where the time went:",
        *tables.lines(time_spent.COLUMNS, time_spent.rows(summary.workers), indent="  "),
    ]


def _about_results(summary: Summary) -> list[str]:
    return [*(f"Note: {note}" for note in summary.notes), f"Results: {summary.results}"]


def _how_it_ended(summary: Summary) -> str:
    line = f"{summary.run} {summary.state}: {words.counts(summary.items, 'no items')} in "
    line += format_seconds(summary.seconds)
    if summary.predicted_seconds is not None and summary.state in ("succeeded", "failed"):
        return f"{line}; predicted {words.prediction(summary.predicted_seconds)}."
    return f"{line}."


def _each_failure(failures: Sequence[tuple[str, str]]) -> list[str]:
    return [f"Failed: {item}: {words.sentence(error)}" for item, error in failures]


def _failures(
    summary: Summary,
    failures: Sequence[tuple[str, str]],
    in_lines: Callable[[Sequence[tuple[str, str]]], list[str]],
    *,
    logged: bool = True,
) -> list[str]:
    if not failures:
        return []
    lines = in_lines(failures)
    more = summary.items.get("failed", 0) - len(failures)
    if more > 0:
        lines.append(f"  and {more} more")
    return [*lines, f"What it wrote: shoal logs {summary.run} {failures[0][0]}"] if logged else lines


def _next(summary: Summary) -> list[str]:
    """What the user may want to do now."""
    if summary.state in ("stopped", "interrupted"):
        return [f"Go on with: shoal resume {summary.run}"]
    if summary.items.get("failed"):
        return [f"Try the failed ones again: shoal resume {summary.run} --failed"]
    return []
