"""Reading items back from `run.db`. Never holds a read open for long: each page of items is its own.

So a reader keeps no writer waiting, on any file system, and memory stays flat for a million items.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from shoal.errors import NotFound
from shoal.model import Item, ItemState, LogSlice
from shoal.model.record import Attempt
from shoal.model.states import UNFINISHED
from shoal.store.encode import decode, readable
from shoal.store.records import ItemRecord, Report
from shoal.store.schema import ATTEMPT_COLUMNS, ITEM_COLUMNS

_PAGE = 2000
_NUMBER = re.compile(r"(\d{1,15})$")


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
