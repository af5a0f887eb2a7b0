"""The list of runs in `index.db`, and a run in one line. Only a shortcut: the run folders are the truth."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.errors import StoreError
from shoal.files import why_not_ours
from shoal.model import RunState
from shoal.store import schema
from shoal.store.driver import Driver, RunLock, is_locked
from shoal.store.home import run_folder, run_ids
from shoal.store.profiles import Database, changing, ignoring_trouble, reading
from shoal.store.schema import opened_to_read
from shoal.store.sqlite import in_our_words

_STATES = frozenset(RunState)
_TABLES = (
    "CREATE TABLE runs(run TEXT PRIMARY KEY, kind TEXT, name TEXT, state TEXT, created REAL, seconds REAL,"
    " stamp INT) WITHOUT ROWID"
)
_INDEX = Database("index.db", (_TABLES,))
_KEYS = ("run", "kind", "name", "state", "created", "turn", "seconds", "began", "last", "driver")


def record(home: str, summary: RunSummary) -> None:
    """Note the present state of a run. Never raises: an index that is behind is put right when it is read."""
    with ignoring_trouble(), changing(home, _INDEX) as connection:
        _put(connection, [summary])


def list_runs(home: str) -> list[RunSummary]:
    """All runs, newest first, with the state that is true now. A run that cannot be read is left out."""
    known = _read(home)
    found: list[RunSummary] = []
    changed: list[RunSummary] = []
    for run in run_ids(home):
        folder = run_folder(home, run)
        summary, stamp = known.pop(run, (None, 0))
        if summary is None or stamp != _stamp(folder) or summary.state.is_active:
            try:
                summary = read_summary(folder)
            except StoreError:
                continue
            changed.append(summary)
        found.append(summary)
    if (changed or known) and why_not_ours(home) is None:  # Of another user nothing is written, only read.
        with ignoring_trouble(), changing(home, _INDEX) as connection:
            _put(connection, changed)
            _drop(connection, known)
    return sorted(found, key=lambda summary: (summary.created, summary.run), reverse=True)


def remove(home: str, run: str, *, now: float) -> None:
    """Delete a run's folder and all that is in it. `RunLocked` while it has a driver."""
    import shutil

    folder = run_folder(home, run)
    aside = os.path.join(home, "runs", f".removed-{run}")
    lock = RunLock.take(os.path.join(folder, "lock"), run=run, now=now)
    try:
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)  # in one step: nobody sees half a run
        shutil.rmtree(aside)
    except OSError as error:
        hint = f"Check who may write in {home}."
        raise StoreError(f"Run {run!r} cannot be removed: {error.strerror or error}.", hint=hint) from error
    finally:
        lock.release()
    with ignoring_trouble(), changing(home, _INDEX) as connection:
        _drop(connection, [run])


def _read(home: str) -> dict[str, tuple[RunSummary | None, int]]:
    """What the index says, with each run's stamp when it was written. Empty when it cannot say."""
    rows: list[tuple[str, str, str, str, float, float, int]] = []
    with ignoring_trouble(), reading(home, _INDEX) as connection:
        query = "SELECT run, kind, name, state, created, seconds, stamp FROM runs"
        rows = connection.execute(query).fetchall()
    types = (str, str, str, str, float, float, int)
    known = [row for row in rows if all(map(isinstance, row, types))]  # a damaged page may hold anything
    return {
        run: (RunSummary(run, kind, name, RunState(state), created, seconds, run_folder(home, run)), stamp)
        for run, kind, name, state, created, seconds, stamp in known
        if state in _STATES
    }


def _put(connection: sqlite3.Connection, summaries: Iterable[RunSummary]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?)",
        [(*summary[:6], _stamp(summary.folder)) for summary in summaries],
    )


def _drop(connection: sqlite3.Connection, runs: Iterable[str]) -> None:
    connection.executemany("DELETE FROM runs WHERE run=?", [(run,) for run in runs])


def _stamp(folder: str) -> int:
    """Changes whenever a driver takes the run, so that what was true before is not believed after."""
    try:
        return os.stat(os.path.join(folder, "lock")).st_mtime_ns
    except OSError:
        return 0


class RunSummary(NamedTuple):
    """`seconds` is how long drivers worked on it: up to their last sign of life, where one was killed."""

    run: str
    kind: str
    name: str
    state: RunState
    created: float
    seconds: float
    folder: str


def read_summary(folder: str) -> RunSummary:
    """From the run's own record. `StoreError` when it cannot be read."""
    path, run = os.path.join(folder, "run.db"), os.path.basename(folder)
    with in_our_words(path, run):
        connection = opened_to_read(path, run)
        try:
            return summarize(connection, folder)
        finally:
            connection.close()


def summarize(connection: sqlite3.Connection, folder: str) -> RunSummary:
    known = schema.read(connection, _KEYS)
    state = RunState(known["state"])
    driver = Driver.read(known.get("driver") or {})
    lives = is_locked(os.path.join(folder, "lock")) or (driver is not None and driver.is_alive())
    if state.is_active and not lives:
        # The driver may have ended the run, or a new one begun, since we read: only what stays so is true.
        again = schema.read(connection, _KEYS)
        same = (again["state"], again["turn"]) == (state, known["turn"])
        known, state = again, RunState.INTERRUPTED if same else RunState(again["state"])
    return RunSummary(
        known["run"], known["kind"], known["name"], state, known["created"], worked(known), folder
    )


def worked(known: dict[str, Any]) -> float:
    """Seconds of work by all drivers so far; `began` is when the present one did, None between drivers."""
    seconds: float = known.get("seconds", 0.0)
    began = known.get("began")
    return seconds if began is None else seconds + max(0.0, known.get("last", began) - began)
