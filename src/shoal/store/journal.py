"""The journal of a run in its `run.db`, at high rate: calls fill buffers, a commit is one transaction.

An item that starts and ends between two commits is written once. The buffers are lost with the driver.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.files.turns import suspended_at
from shoal.model import Item, ItemState, LogSlice, LostCause, Outcome
from shoal.model.item import HIDDEN
from shoal.model.record import Attempt
from shoal.model.states import FINAL
from shoal.store import schema
from shoal.store.driver import Driver, taken_over
from shoal.store.items import no_items
from shoal.store.schema import ATTEMPT_COLUMNS, ITEM_COLUMNS, encode, number
from shoal.store.sqlite import clean, in_our_words, transaction

_STATE, _ATTEMPT, _USED, _NODE, _STARTED, _ERROR = 6, 7, 8, 9, 10, 13  # places in a row of ITEM_COLUMNS
_LOG_FILE, _LOG_START, _KEPT = 14, 15, 17
_MOVED_LOG = slice(6, 8)
_NOT_RUN = (None, None, None, None, None, None, None, None, 0)

_WAITING, _RUNNING = str(ItemState.WAITING), str(ItemState.RUNNING)
"""Plain text, which SQLite takes without a detour."""

_ADD = f"INSERT OR IGNORE INTO items VALUES({','.join('?' * len(ITEM_COLUMNS))})"
_END = (
    "UPDATE items SET state=?, attempt=?, used=?, node=?, started=?, seconds=?, metrics=?, error=?,"
    " log_file=coalesce(?,log_file), log_start=coalesce(?,log_start), log_end=?, kept=? WHERE seq=? AND "
)
_MOVE = (
    "UPDATE items SET state=?, attempt=?, used=coalesce(?,used), node=?, started=?, seconds=NULL,"
    " metrics=NULL, error=coalesce(?,error), log_file=coalesce(?,log_file), log_start=coalesce(?,log_start),"
    " log_end=CASE WHEN ? IS NULL THEN log_end END WHERE seq=? AND "
)
_OPEN = "attempt<=? AND state IN ('waiting','running')"
"""The last fence: nothing replaces a final state, and no older attempt replaces a newer."""
_KEYS = ("counts", "params", "metrics", "objective", "best", "last", "reports")
_REPORT = "INSERT OR IGNORE INTO reports VALUES(?,?,?,?,?,?)"
_ATTEMPTED = f"INSERT OR IGNORE INTO attempts VALUES({','.join('?' * len(ATTEMPT_COLUMNS))})"
_EVENT = "INSERT INTO events(at, subject, what, why) VALUES(?,?,?,?)"


class SqliteJournal:
    """Implements `shoal.shape.journal.Journal`. Made by `RunStore.journal`, which lends it the connection."""

    def __init__(self, connection: sqlite3.Connection, path: str, run: str, turn: int) -> None:
        self._connection, self._path, self._run, self._turn = connection, path, run, turn
        self._seen_version: int | None = None
        self._new: dict[int, list[Any]] = {}
        self._ended: dict[int, tuple[Any, ...]] = {}
        self._moved: dict[int, tuple[Any, ...]] = {}
        self._ended_again: list[tuple[Any, ...]] = []
        self._reports: list[tuple[Any, ...]] = []
        self._attempts: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._running: dict[int, int] = {}
        with in_our_words(path, run):
            self.reload()
            if self._counts[_RUNNING] or self._counts[ItemState.STOPPED]:
                self._take_over()

    def reload(self) -> None:
        """Read what is committed anew. The buffers must be empty."""
        known = schema.read(self._connection, _KEYS)
        self._counts: dict[str, int] = no_items() | known.get("counts", {})
        self._params: dict[str, None] = dict.fromkeys(known.get("params", ()))
        self._metrics: dict[str, None] = dict.fromkeys(known.get("metrics", ()))
        objective: tuple[str | None, str | None] = known.get("objective") or (None, None)
        self._metric, self._goal = objective
        self._best: list[Any] | None = known.get("best")
        self._last: float = known.get("last", 0.0)
        self._report_number: int = known.get("reports", 0)
        self._named = (len(self._params), len(self._metrics))
        self._highest: int = self._connection.execute("SELECT max(seq) FROM items").fetchone()[0] or 0

    def _is_there(self, seq: int) -> bool:
        query = "SELECT 1 FROM items WHERE seq=?"
        with in_our_words(self._path, self._run):
            return self._connection.execute(query, (seq,)).fetchone() is not None

    def _take_over(self) -> None:
        """What ran or was stopped under an earlier driver waits again under this one."""
        with transaction(self._connection):
            ensure_turn(self._connection, self._run, self._turn)
            keep_attempts(self._connection, "state IN ('running','stopped')")
            self._connection.execute("UPDATE items SET state='waiting' WHERE state IN ('running','stopped')")
            self._counts = count_again(self._connection)
            schema.write(self._connection, {"counts": self._counts})

    def add(self, items: Sequence[Item]) -> None:
        """New items, waiting. One that is there already is left as it is."""
        new, names = self._new, self._params
        for seq, identity, params, texts, content, occurrence, attempt, used in items:
            if seq in new or (seq <= self._highest and self._is_there(seq)):
                continue
            for name in params:
                if name not in names and not name.startswith(HIDDEN):
                    names[name] = None
            encoded, exact = encode(params), encode(texts) if texts else None
            row = [
                seq,
                clean(identity),
                content,
                occurrence,
                encoded,
                exact,
                _WAITING,
                attempt,
                used,
                *_NOT_RUN,
            ]
            new[seq] = row
            self._counts[_WAITING] += 1

    def started(self, seq: int, attempt: int, node: str, at: float, log: LogSlice | None) -> None:
        """The item runs now. Written only when it still does at the next commit."""
        file, start = (log.file, log.start) if log else (None, None)
        if self._move(seq, attempt, _RUNNING, None, node, at, None, file, start):
            self._running[seq] = attempt
        self._last = max(self._last, at)

    def requeued(
        self, seq: int, attempt: int, used: int, error: str | None, *, over: Attempt | None = None
    ) -> None:
        """An attempt is over without an end: it waits again. Without an `error` the one before stays."""
        if self._move(seq, attempt, _WAITING, used, None, None, error, None, None):
            self._running.pop(seq, None)
            if over is not None:
                self._attempts.append((seq, *_columns(over)))

    def noted(self, at: float, subject: str, what: str, why: str) -> None:
        """Something happened to the run as a whole."""
        self._events.append((at, clean(subject), clean(what), clean(why)))

    def progressed(
        self, seq: int, attempt: int, at: float, metrics: Mapping[str, Any], step: int | None
    ) -> None:
        """The item reported something. Dropped unless this attempt of it is running."""
        if self._running.get(seq) == attempt:
            self._report_number += 1
            self._reports.append((seq, attempt, self._report_number, step, at, encode(metrics)))
            self._last = max(self._last, at)

    def ended(self, seq: int, attempt: int, used: int, node: str, started: float, outcome: Outcome) -> None:
        """The item has its final state. A second end, or one of an older attempt, changes nothing."""
        state, metrics, error, seconds, log, kept = outcome
        running = self._running.get(seq)
        row, moved = self._new.get(seq), self._moved.get(seq)
        if row is None:
            newest = moved[1] if moved else running
            if seq > self._highest or (newest is not None and attempt < newest):
                return
        elif attempt < row[_ATTEMPT] or row[_STATE] in FINAL:
            return
        names = self._metrics
        for name in metrics:
            if name not in names and not name.startswith(HIDDEN):
                names[name] = None
        file, start, end = log or (None, None, None)
        encoded = encode(metrics) if metrics else None
        if error is not None or not node.isascii():
            error, node = clean(error), clean(node) or ""
        if row is not None:
            row[_STATE:_LOG_FILE] = state, attempt, used, node, started, seconds, encoded, error
            row[_LOG_FILE:] = file or row[_LOG_FILE], start if file else row[_LOG_START], end, kept
        else:
            if moved is not None:
                del self._moved[seq]
                file, start = moved[_MOVED_LOG] if file is None else (file, start)
            told = (state, attempt, used, node, started, seconds, encoded, error)
            change = (*told, file, start, end, kept, seq, attempt)
            if self._ended.setdefault(seq, change) is not change:
                self._ended_again.append(change)
                return
        if running is None:
            self._counts[_WAITING] -= 1
        else:
            self._counts[_RUNNING] -= 1
            del self._running[seq]
        self._counts[state] += 1
        self._last = max(self._last, started + seconds)
        if state == ItemState.DONE and self._metric is not None and self._metric in metrics:
            self._consider(seq, number(metrics[self._metric]))

    def commit(self) -> None:
        """Make everything told so far durable, or raise `StoreError` and keep it for another try."""
        if not (self._new or self._ended or self._moved or self._reports or self._events):
            return
        connection = self._connection
        with in_our_words(self._path, self._run), transaction(connection):
            ensure_turn(connection, self._run, self._turn)
            suspended_at("commit")
            exact = self._write_items()
            if self._reports:
                connection.executemany(_REPORT, self._reports)
            if self._attempts:
                connection.executemany(_ATTEMPTED, self._attempts)
            if self._events:
                connection.executemany(_EVENT, self._events)
            if not exact:
                self._counts = count_again(connection)
            schema.write(connection, self._summary())
        self._named = (len(self._params), len(self._metrics))
        self._highest = max(self._highest, max(self._new, default=0))
        for buffer in (self._new, self._ended, self._moved):
            buffer.clear()
        for told in (self._ended_again, self._reports, self._attempts, self._events):
            told.clear()

    def ensure_ours(self) -> None:
        """Raise `TakenOver` where another driver has the run by now. Reads only where somebody else has written.

        A disk that cannot be read for a moment says nothing of that: the next commit meets it, and is tried again.
        """
        with suppress(sqlite3.OperationalError):
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._seen_version:
                ensure_turn(self._connection, self._run, self._turn)
                self._seen_version = version

    def _write_items(self) -> bool:
        """Whether each statement changed exactly one item: when not, somebody told us something twice.

        Ends go before moves, so that the fence drops a move that came after an end.
        """
        connection, exact = self._connection, True
        for statement, rows in (
            (_ADD, self._new.values()),
            (_END + _OPEN, self._ended.values()),
            (_MOVE + _OPEN, self._moved.values()),
            (_END + _OPEN, self._ended_again),
        ):
            if rows:
                exact &= connection.executemany(statement, rows).rowcount == len(rows)
        return exact

    def _summary(self) -> dict[str, Any]:
        values: dict[str, Any] = {"counts": self._counts, "last": self._last}
        if self._named != (len(self._params), len(self._metrics)):
            values |= {"params": list(self._params), "metrics": list(self._metrics)}
        if self._best is not None:
            values["best"] = self._best
        if self._reports:
            values["reports"] = self._report_number
        return values

    def _move(
        self,
        seq: int,
        attempt: int,
        state: str,
        used: int | None,
        node: str | None,
        at: float | None,
        error: str | None,
        file: str | None,
        start: int | None,
    ) -> bool:
        """Note a state that is not final. False when this item is known to be past it."""
        running = self._running.get(seq)
        row, change = self._new.get(seq), self._moved.get(seq)
        if (running is not None and attempt < running) or (row is None and seq > self._highest):
            return False
        if row is not None:
            if attempt < row[_ATTEMPT] or row[_STATE] in FINAL:
                return False
            row[_STATE:_USED] = state, attempt
            row[_USED] = row[_USED] if used is None else used
            row[_NODE:_ERROR] = clean(node), at, None, None
            row[_ERROR] = row[_ERROR] if error is None else clean(error)
            if file is not None:
                row[_LOG_FILE:_KEPT] = file, start, None
        else:
            if change is not None:
                if attempt < change[1]:
                    return False
                used = change[2] if used is None else used
                error = change[5] if error is None else error
                file, start = change[_MOVED_LOG] if file is None else (file, start)
            told = (state, attempt, used, clean(node), at, clean(error))
            self._moved[seq] = (*told, file, start, file, seq, attempt)
        self._counts[_WAITING if running is None else _RUNNING] -= 1
        self._counts[state] += 1
        return True

    def _consider(self, seq: int, value: float | int | None) -> None:
        if value is None:
            return
        sign = -1 if self._goal == "max" else 1
        if self._best is None or (sign * value, seq) < (sign * self._best[1], self._best[0]):
            self._best = [seq, value]


def ensure_turn(connection: sqlite3.Connection, run: str, turn: int) -> None:
    """Raise `TakenOver` where the record is at another turn. Inside a transaction that writes, this is the fence."""
    found = schema.read_one(connection, "turn")
    if found != turn:
        raise taken_over(run, found, Driver.read(schema.read_one(connection, "driver", {})))


def keep_attempts(
    connection: sqlite3.Connection, which: str, each: Sequence[tuple[int, ...]] = ((),)
) -> None:
    """Before items wait again: their last attempts become earlier ones, so far as they began.

    `which` is a condition in SQL, and is asked with each of these parameters. The error of an item that runs is that
    of the attempt before.
    """
    connection.executemany(
        f"INSERT OR IGNORE INTO attempts SELECT seq, attempt, used + (state<>'{ItemState.FAILED}'), node, started,"
        f" seconds, CASE state WHEN '{_RUNNING}' THEN '{LostCause.DRIVER}' ELSE state END,"
        f" CASE state WHEN '{_RUNNING}' THEN NULL ELSE error END,"
        f" log_file, log_start, log_end FROM items WHERE {which} AND started IS NOT NULL AND node<>''",
        each,
    )


def _columns(over: Attempt) -> tuple[Any, ...]:
    attempt, counted, node, started, seconds, how, error, log = over
    return (attempt, counted, clean(node), started, seconds, how, clean(error), *(log or (None, None, None)))


def count_again(connection: sqlite3.Connection) -> dict[str, int]:
    """How many items are in each state, from the items themselves: slow on a million, so rarely needed."""
    counts = no_items()
    counts.update(connection.execute("SELECT state, count(*) FROM items GROUP BY state"))
    return counts
