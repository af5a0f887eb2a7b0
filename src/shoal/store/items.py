"""Items read back from `run.db`: all that is recorded of each, and the result rows that people see."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from shoal.errors import NotFound
from shoal.model import Item, ItemState, LogSlice
from shoal.model.record import Attempt
from shoal.model.states import FINAL, UNFINISHED
from shoal.store import schema
from shoal.store.schema import ATTEMPT_COLUMNS, ITEM_COLUMNS, decode, number, readable

_PAGE = 2000
_NUMBER = re.compile(r"(\d{1,15})$")
_COUNTED = FINAL - {ItemState.STOPPED}
"""States whose attempt is among those used."""
Row = dict[str, Any]

_BEFORE = ("item", "state")
_AFTER = ("seconds", "attempt", "node", "started", "error")
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_RESERVED = frozenset(_BEFORE + _AFTER)


def pages(
    connection: sqlite3.Connection,
    columns: str,
    states: Sequence[str] | None = None,
    limit: int | None = None,
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in the order of seq, which must be the first column."""
    where = f" AND state IN ({','.join('?' * len(states))})" if states is not None else ""
    query = f"SELECT {columns} FROM items WHERE seq>?{where} ORDER BY seq LIMIT ?"
    after, left = -1, limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        rows = connection.execute(query, (after, *(states or ()), size)).fetchall()
        if rows:
            yield rows
        if len(rows) < size:
            return
        after = rows[-1][0]
        left = None if left is None else left - len(rows)


def unfinished(connection: sqlite3.Connection) -> Iterator[Item]:
    """What a new driver goes on with: waiting, running under a driver that is gone, or stopped."""
    return in_states(connection, UNFINISHED)


def in_states(connection: sqlite3.Connection, states: Sequence[str]) -> Iterator[Item]:
    columns = "seq, id, params, texts, content, occurrence, attempt, used"
    for rows in pages(connection, columns, states):
        for row, params in zip(rows, decode([row[2] for row in rows]), strict=True):
            yield Item(row[0], row[1], params, json.loads(row[3]) if row[3] else None, *row[4:])


def records(
    connection: sqlite3.Connection, states: Sequence[str] | None = None, limit: int | None = None
) -> Iterator[ItemRecord]:
    for rows in pages(connection, ", ".join(ITEM_COLUMNS), states, limit):
        yield from map(record, rows)


def record(row: tuple[Any, ...]) -> ItemRecord:
    """A row of ITEM_COLUMNS as a value."""
    seq, identity, content, occurrence, params, texts, state, attempt, used = row[:9]
    node, started, seconds, metrics, error, log_file, log_start, log_end, kept = row[9:]
    exact = json.loads(texts) if texts else None
    item = Item(seq, identity, json.loads(params), exact, content, occurrence, attempt, used)
    log = None if log_file is None else LogSlice(log_file, log_start, log_end)
    [told] = readable([metrics])
    return ItemRecord(item, state, node, started, seconds, told, error, log, bool(kept))


def find(connection: sqlite3.Connection, identity: str, run: str) -> ItemRecord:
    """The item of that id, or `NotFound`. Ids mostly end in their number: that row is looked at first."""
    columns = ", ".join(ITEM_COLUMNS)
    guess = _NUMBER.search(identity)
    row = None
    if guess:
        query = f"SELECT {columns} FROM items WHERE seq=? AND id=?"
        row = connection.execute(query, (int(guess[1]), identity)).fetchone()
    if row is None:
        row = connection.execute(f"SELECT {columns} FROM items WHERE id=? LIMIT 1", (identity,)).fetchone()
    if row is None:
        raise _no_item(connection, identity, run)
    return record(row)


def by_seq(connection: sqlite3.Connection, seq: int) -> ItemRecord | None:
    row = connection.execute(f"SELECT {', '.join(ITEM_COLUMNS)} FROM items WHERE seq=?", (seq,)).fetchone()
    return None if row is None else record(row)


def reports(connection: sqlite3.Connection, seq: int) -> list[Report]:
    query = "SELECT attempt, step, at, metrics FROM reports WHERE seq=? ORDER BY attempt, number"
    return [
        Report(attempt, step, at, readable([metrics])[0])
        for attempt, step, at, metrics in connection.execute(query, (seq,))
    ]


def attempts(connection: sqlite3.Connection, seq: int | None) -> dict[int, list[Attempt]]:
    """Earlier attempts by item, of one item or of all, in order."""
    which = "" if seq is None else " WHERE seq=?"
    query = f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts{which} ORDER BY seq, attempt"
    found: dict[int, list[Attempt]] = {}
    for row in connection.execute(query, () if seq is None else (seq,)):
        file, start, end = row[8:]
        log = None if file is None else LogSlice(file, start, end)
        found.setdefault(row[0], []).append(Attempt._make((*row[1:8], log)))
    return found


def known_contents(connection: sqlite3.Connection) -> dict[str, int]:
    """How many items have each content. Contents that are empty are left out."""
    known: dict[str, int] = {}
    for rows in pages(connection, "seq, content"):
        for _, content in rows:
            if content:
                known[content] = known.get(content, 0) + 1
    return known


def durations(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[str, Any], float, str]]:
    for rows in pages(connection, "seq, content, params, seconds, node", (ItemState.DONE,)):
        for row, params in zip(rows, decode([row[2] for row in rows]), strict=True):
            yield row[1], params, row[3], row[4]


def sum_of(connection: sqlite3.Connection, metrics: Sequence[str]) -> float:
    """The database adds up: a run may have a million items."""
    sums = " + ".join(["coalesce(sum(json_extract(metrics, ?)), 0)"] * len(metrics))
    query = f"SELECT {sums} FROM items WHERE state='done' AND json_valid(metrics)"  # NaN is no JSON.
    return float(connection.execute(query, [f'$."{name}"' for name in metrics]).fetchone()[0])


def max_seq(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(seq) FROM items").fetchone()[0] or 0)


def _no_item(connection: sqlite3.Connection, identity: str, run: str) -> NotFound:
    from shoal.errors import nearest

    some = [row[0] for row in connection.execute("SELECT id FROM items ORDER BY seq LIMIT 2000")]
    from difflib import get_close_matches

    hint = nearest(identity, some) if get_close_matches(identity, some, n=1) else f"See `shoal show {run}`."
    return NotFound(f"Run {run!r} has no item {identity!r}.", hint=hint)


def no_items() -> dict[str, int]:
    """A count of items by state that begins at nothing. Its keys are plain text, with which dicts are fastest."""
    return dict.fromkeys(map(str, ItemState), 0)


class ItemRecord(NamedTuple):
    """`item.attempt` is the newest attempt that is recorded; times are None until it started."""

    item: Item
    state: str
    node: str | None = None
    started: float | None = None
    seconds: float | None = None
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    log: LogSlice | None = None
    kept: bool = False

    @property
    def attempt(self) -> int:
        """Which attempt people see."""
        return counted_attempt(self.state, self.item.used, self.started)


def counted_attempt(state: str, used: int, started: float | None) -> int:
    """Of the attempts that count, the one that a state is from. One that was handed out in vain is none."""
    if state in _COUNTED:
        return max(1, used)
    return used if started is None else used + 1


class Report(NamedTuple):
    """What `shoal.report` told once."""

    attempt: int
    step: int | None
    at: float
    metrics: Mapping[str, Any]


class Columns(NamedTuple):
    """The columns of a run's rows: parameters in the table's order, metrics in order of first appearance."""

    params: tuple[str, ...]
    metrics: Mapping[str, str]
    """From the metric's name to its column."""

    @classmethod
    def of(cls, params: Iterable[str], metrics: Iterable[str]) -> Columns:
        """A metric named like a parameter or a reserved word gets the column `metric.NAME`."""
        given = tuple(params)
        taken, columns = _RESERVED.union(given), {}
        for name in metrics:
            column = name
            while column in taken:
                column = f"metric.{column}"
            taken |= {column}
            columns[name] = column
        return cls(given, columns)

    def names(self) -> list[str]:
        """All columns, in order."""
        return [*_BEFORE, *self.params, *self.metrics.values(), *_AFTER]


def read_columns(connection: sqlite3.Connection) -> Columns:
    """As far as items are committed; kept up to date by the journal, so no item is read."""
    known = schema.read(connection, ("params", "metrics"))
    return Columns.of(known.get("params", ()), known.get("metrics", ()))


def result_row(record: ItemRecord, columns: Columns) -> Row:
    """The row of one item. It has every column; what the item does not have is None."""
    item = record.item
    return _row(
        columns,
        item.id,
        record.state,
        item.params,
        record.metrics,
        (
            record.seconds,
            record.attempt,
            record.node,
            timestamp(record.started),
            record.error and _without_controls(record.error),
        ),
    )


def rows(connection: sqlite3.Connection, states: Sequence[str] | None = None) -> Iterator[Row]:
    """All rows, or those of items in these states, in the order of the items."""
    columns = read_columns(connection)
    for item, state, params, _, metrics, last in results(connection, states):
        yield _row(columns, item, state, params, metrics, last)


def best(connection: sqlite3.Connection, metric: str, goal: str, count: int) -> list[Row]:
    """The best rows of items that are done, best first; the earlier item first among equals.

    `metric` is a metric's name, or its column. What is no number, or NaN, never wins.
    """
    from heapq import nsmallest

    columns = read_columns(connection)
    name = next((name for name, column in columns.metrics.items() if column == metric), metric)
    sign = -1 if goal == "max" else 1
    found = nsmallest(count, _scored(connection, name, sign), key=itemgetter(0))
    return [
        _row(columns, item, state, params, metrics, last)
        for _, (item, state, params, _, metrics, last) in found
    ]


Result = tuple[str, str, dict[str, Any], dict[str, str] | None, dict[str, Any], tuple[Any, ...]]
"""An item as rows need it: id, state, parameters, their exact texts, metrics, and the last columns."""


def results(connection: sqlite3.Connection, states: Sequence[str] | None = None) -> Iterator[Result]:
    """What rows are made of, in the order of the items."""
    columns = "seq, id, state, params, texts, metrics, seconds, used, node, started, error"
    for page in pages(connection, columns, states):
        params, metrics = readable([raw[3] for raw in page]), readable([raw[5] for raw in page])
        for raw, given, measured in zip(page, params, metrics, strict=True):
            texts = json.loads(raw[4]) if raw[4] else None
            attempt, error = counted_attempt(raw[2], raw[7], raw[9]), raw[10] and _without_controls(raw[10])
            last = (raw[6], attempt, raw[8], timestamp(raw[9]), error)
            yield raw[1], raw[2], given, texts, measured, last


def _without_controls(error: str) -> str:
    """Errors quote log lines: what in them would move or colour a terminal goes. Lines and tabs stay."""
    return error if error.isprintable() else _CONTROLS.sub("", error)


def timestamp(at: float | None) -> str | None:
    """ISO-8601 in UTC, to the millisecond."""
    if at is None:
        return None
    second, millisecond = divmod(round(at * 1e6) // 1000, 1000)
    return f"{_second(second)}.{millisecond:03d}Z"


@lru_cache(maxsize=256)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _scored(connection: sqlite3.Connection, metric: str, sign: int) -> Iterator[tuple[float, Result]]:
    for result in results(connection, (ItemState.DONE,)):
        value = number(result[4].get(metric))
        if value is not None:
            yield sign * value, result


def _row(
    columns: Columns,
    identity: str,
    state: str,
    params: Mapping[str, Any],
    metrics: Mapping[str, Any],
    last: Iterable[Any],
) -> Row:
    row: Row = {"item": identity, "state": state}
    for name in columns.params:
        row[name] = params.get(name)
    for name, column in columns.metrics.items():
        row[column] = metrics.get(name)
    row.update(zip(_AFTER, last, strict=True))
    return row
