"""`ls`, `show`, `results` and `report`: looking at runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from shoal import words
from shoal.cli import output
from shoal.cli.group import command_of_run, hidden_json_option, json_option
from shoal.cli.output import (
    Row,
    echo,
    echo_csv,
    echo_json,
    echo_json_rows,
    is_terminal,
    local_time,
    say,
    timestamp,
)
from shoal.model import RunState
from shoal.model.item import shown
from shoal.model.record import JOINED, LOST, NODE, Attempt
from shoal.units import format_seconds
from shoal.work.kind import best_in_words, kind_of, metrics_of

if TYPE_CHECKING:
    from shoal.store import ItemRecord, RunInfo, RunStore
    from shoal.work.kind import Kind


ITEMS_SHOWN = 20
ATTEMPTS_SHOWN = 5
ROWS_ON_SCREEN = 1000


@click.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the runs, newest first."""
    from shoal.api.views import lookup

    runs = lookup.runs()
    if as_json:
        echo_json([summary._asdict() | {"created": timestamp(summary.created)} for summary in runs])
        return
    if not runs:
        say("There are no runs here yet; shoal run FILE starts one.")
        return
    rows = [
        {
            "run": summary.run,
            "kind": summary.kind,
            "state": summary.state,
            "started": local_time(summary.created),
            "took": format_seconds(summary.seconds),
        }
        for summary in runs
    ]
    for line in output.lines(("run", "kind", "state", "started", "took"), rows):
        echo(line)


@command_of_run("show")
@click.option("--why", is_flag=True, help="Also say what was decided, and why.")
@click.option("--summary", is_flag=True, hidden=True, help="What `run` says at its end, with its exit code.")
@json_option
def show_command(run: str, why: bool, summary: bool, as_json: bool) -> int:
    """Show one run and its items."""
    from shoal.api.views.lookup import open_run
    from shoal.cluster.this_machine import Here

    with open_run(run) as store:
        if summary:
            from shoal.api.session import summarize
            from shoal.cli.end_of_run import tell

            return tell(summarize(store), as_json)
        info = store.info(Here().now())
        if as_json:
            echo_json(_document(info, store, why))
        else:
            _tell(info, store)
            if why:
                _tell_why(store)
    return 0


def _document(info: RunInfo, store: RunStore, why: bool) -> dict[str, Any]:
    """The run as JSON: its counts, and its items one by one."""
    document: dict[str, Any] = info._asdict()
    for name in ("created", "started", "ended"):
        document[name] = timestamp(document[name])
    if info.objective is not None:
        document["objective"] = {"metric": info.objective[0], "goal": info.objective[1]}
    document["results"] = store.results_path()
    document["waits"] = _waits(info, store)
    document["counts"] = info.items
    earlier = store.attempts()
    document["items"] = [_item(record, earlier.get(record.item.seq, ())) for record in store.items()]
    events = [event._asdict() | {"at": timestamp(event.at)} for event in store.events()]
    document["events"] = events
    document[info.kind] = kind_of(info.kind).document(store)
    if why:
        document["plan"] = store.plan()
        document["scaling"] = [
            {
                "at": event["at"],
                "host": event["subject"].removeprefix(NODE),
                "change": event["what"],
                "why": event["why"],
            }
            for event in events
            if event["subject"].startswith(NODE) and event["what"] not in (JOINED, LOST)
        ]
    return document


def _waits(info: RunInfo, store: RunStore) -> str | None:
    """What a run that has no worker waits for, and which runs hold it."""
    return store.kept().waits if info.state == RunState.RUNNING else None


def _item(record: ItemRecord, earlier: Sequence[Attempt]) -> dict[str, Any]:
    return {
        "item": record.item.id,
        "state": record.state,
        "attempt": record.attempt,
        "node": record.node,
        "started": timestamp(record.started),
        "seconds": record.seconds,
        "error": record.error,
        "params": shown(record.item.params),
        "metrics": shown(record.metrics),
        "earlier_attempts": [_attempt(each) for each in earlier],
    }


def _attempt(earlier: Attempt) -> dict[str, Any]:
    return {
        "attempt": earlier.counted,
        "node": earlier.node,
        "started": timestamp(earlier.started),
        "seconds": earlier.seconds,
        "how": earlier.how,
        "error": earlier.error,
        "log": earlier.log and earlier.log._asdict(),
    }


def _tell(info: RunInfo, store: RunStore) -> None:
    total = "" if info.total is None else f" of {info.total}"
    echo(f"{info.run}: {info.kind} {info.name}, {info.state}")
    echo(f"items: {words.counts(info.items, 'none yet')}{total}")
    if waits := _waits(info, store):
        echo(f"waits for: {waits}")
    echo(f"created: {local_time(info.created)}, took {format_seconds(info.seconds)}")
    if info.predicted_seconds is not None:
        echo(f"predicted: {words.prediction(info.predicted_seconds)}")
    if info.driver is not None:
        echo(f"driven by: process {info.driver.get('pid')} on {info.driver.get('host')}")
    if (best := best_in_words(info)) is not None:
        echo(f"best: {best}")
    kind = kind_of(info.kind)
    if document := kind.document(store):
        for line in kind.in_words(document):
            echo(line)
    if events := store.events():
        last = events[-1]
        echo(f"events: {len(events)}, last {last.subject} {last.what}; --why has all, with reasons")
    echo(f"folder: {info.folder}")
    for state in ("running", "failed"):
        if info.items.get(state):
            _tell_items(store, state, info.items[state])


def _tell_items(store: RunStore, state: str, count: int) -> None:
    for record in islice(store.items((state,)), ITEMS_SHOWN):
        where = f" on {record.node}" if record.node else ""
        what = words.sentence(record.error) if state == "failed" else words.parameters(record.item.params)
        echo(f"{state}: {record.item.id}{where}: {what}{_earlier(store, record)}")
    if count > ITEMS_SHOWN:
        echo(f"{state}: and {count - ITEMS_SHOWN} more")


def _earlier(store: RunStore, record: ItemRecord) -> str:
    """How the attempts before this one ended, most recent last."""
    ends = [f"{each.how} on {each.node}" for each in store.attempts(record.item.seq).get(record.item.seq, ())]
    return f" (before: {', '.join(ends[-ATTEMPTS_SHOWN:])})" if ends else ""


def _tell_why(store: RunStore) -> None:
    decisions = (store.plan() or {}).get("decisions")
    if not decisions:
        say("The plan of this run was not kept.")
    for decision in decisions or ():
        echo(_decision(decision))
    for decision in kind_of(store.info().kind).decisions(store):
        echo(f"found out: {_decision(decision)}")
    for event in store.events():
        echo(f"{local_time(event.at)} {event.subject} {event.what}\n    {event.why}")


def _decision(decision: Mapping[str, Any]) -> str:
    return f"{decision['name']}: {words.choice(decision['name'], decision['choice'])}\n    {decision['why']}"


@command_of_run("results")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="A table to read, or every row and column for other programs.",
)
@click.option("--best", type=click.IntRange(min=1), metavar="N", help="Only the best N, best first.")
@click.option("--average", is_flag=True, help="One row for all trials with equal parameters: their means.")
def results_command(run: str, form: str, best: int | None, average: bool) -> None:
    """Print the results of a run, a row for each item."""
    from shoal.api.views.lookup import open_run

    with open_run(run) as store:
        if average:
            from shoal.cli.end_of_run import echo_averages

            echo_averages(store, form, best)
            return
        kind = kind_of(store.info().kind)
        rows = kind.rows(store) if best is None else _best(store, kind, best)
        if best is None and (sentence := kind.missing(store)) is not None:
            say(f"Note: {sentence}")
        if form == "json":
            echo_json_rows(rows)
        elif kind.has_output and best is None:
            _echo_output(store, rows, form)
        elif form == "csv":
            _echo_csv(store, rows, whole=best is None)
        else:
            _show(store.columns(), iter(rows), metrics_of(store))


def _best(store: RunStore, kind: Kind, count: int) -> Iterable[Row]:
    objective = store.info().objective
    if objective is None:
        from shoal.errors import SpecError

        wish = "Add objective: {metric: NAME, goal: max} to the workload, or leave"
        raise SpecError(
            f"Run {store.run} has no objective, so none of its results is best.",
            hint=f"{wish if kind.is_compared else 'Leave'} out --best.",
        )
    return store.best(*objective, count=count)


def _echo_output(store: RunStore, rows: Iterable[Row], form: str) -> None:
    """Rows that have columns of their own: those of the first are those of all."""
    waiting = iter(rows)
    first = next(waiting, None)
    if first is None:
        if form != "csv":
            running = store.state().is_active
            say("There are no rows yet." if running else "There are no rows.")
    elif form == "csv":
        echo_csv(list(first), (row.values() for row in chain([first], waiting)))
    else:
        _show(list(first), chain([first], waiting))


def _echo_csv(store: RunStore, rows: Iterable[Row], *, whole: bool) -> None:
    """Exactly `results.csv` where that is written already; else the same as it would be now."""
    path = os.path.join(store.folder, "results.csv")
    if whole and store.state().has_ended and os.path.isfile(path):
        with open(path, encoding="utf-8", newline="") as file:
            while block := file.read(1 << 20):
                echo(block, end="")
        return
    columns = store.columns()
    echo_csv(columns, _exact(store, columns, rows))


def _exact(store: RunStore, columns: list[str], rows: Iterable[Row]) -> Iterator[list[Any]]:
    """Rows with their parameters as the table had them."""
    for row in rows:
        texts = store.item(str(row["item"])).item.texts or {}
        yield [texts.get(name, row.get(name)) for name in columns]


def _show(columns: list[str], rows: Iterator[Row], keep: Sequence[str] = ()) -> None:
    """As many rows as a screen is for, and what was left out."""
    shown = islice(rows, ROWS_ON_SCREEN) if is_terminal() else rows
    hidden = output.show(columns, shown, keep)
    if hidden:
        names = words.shortened(", ".join(hidden), 60)
        say(f"No room for: {names}; --format csv has all columns.")
    if next(rows, None) is not None:
        say(f"Shown are the first {ROWS_ON_SCREEN}; --format csv has all rows.")


@command_of_run("report")
@hidden_json_option
def report_command(run: str, as_json: bool) -> None:
    """Write a page about a run, with charts, into its folder.

    Prints the path of report.html: one file that needs no other, to be opened in a browser. It shows the run as it is
    now, also while it goes on; another call writes it anew.
    """
    from shoal.reports import write

    path = write(run)
    if as_json:
        echo_json({"report": path})
    else:
        echo(path)
