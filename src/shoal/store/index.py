"""The list of runs in `index.db`: only a shortcut. The run folders are the truth, and it is rebuilt from them.

So nothing here fails a run: an index that is missing, damaged or behind costs time, never an answer.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress

from shoal.errors import StoreError
from shoal.store.home import run_folder, run_ids
from shoal.store.lock import RunLock
from shoal.store.sqlite import VERSION, open_file
from shoal.store.summary import RunSummary, read_summary

_FINAL = frozenset(("succeeded", "failed", "stopped", "interrupted"))
_BUSY_MS = 1000
_PUT = "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?)"


def record(home: str, summary: RunSummary) -> None:
    """Note the present state of a run. Never raises: an index that is behind is put right when it is read."""
    with suppress(sqlite3.Error, OSError), closing(_connect(home)) as connection:
        _put(connection, [summary])


def list_runs(home: str) -> list[RunSummary]:
    """All runs, newest first, with the state that is true now. Runs whose record cannot be read are left out."""
    known = _read(home)
    found: list[RunSummary] = []
    changed: list[RunSummary] = []
    for run in run_ids(home):
        folder = run_folder(home, run)
        summary, stamp = known.pop(run, (None, 0))
        if summary is None or stamp != _stamp(folder) or summary.state not in _FINAL:
            try:
                summary = read_summary(folder)
            except StoreError:
                continue
            changed.append(summary)
        found.append(summary)
    if changed or known:
        with suppress(sqlite3.Error, OSError), closing(_connect(home)) as connection:
            _put(connection, changed, gone=known)
    return sorted(found, key=lambda summary: (summary.created, summary.run), reverse=True)


def remove(home: str, run: str, *, now: float) -> None:
    """Delete a run's folder and all that is in it. `RunLocked` while it has a driver."""
    folder = run_folder(home, run)
    lock = RunLock.take(os.path.join(folder, "lock"), run=run, now=now)
    try:
        aside = os.path.join(home, "runs", f".removed-{run}")
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)
        shutil.rmtree(aside)
    except OSError as error:
        hint = f"Check who may write in {home}."
        raise StoreError(f"Run {run!r} cannot be removed: {error.strerror or error}.", hint=hint) from error
    finally:
        lock.release()
    with suppress(sqlite3.Error, OSError), closing(_connect(home)) as connection:
        _put(connection, [], gone=[run])


def _read(home: str) -> dict[str, tuple[RunSummary | None, int]]:
    """What the index says, with the stamp of each run when it was written. Empty when it cannot say."""
    try:
        with closing(_connect(home, write=False)) as connection:
            rows = connection.execute(
                "SELECT run, kind, name, state, created, seconds, stamp FROM runs"
            ).fetchall()
    except (sqlite3.Error, OSError):
        return {}
    return {row[0]: (RunSummary(*row[:6], run_folder(home, row[0])), row[6]) for row in rows}


def _put(connection: sqlite3.Connection, summaries: Iterable[RunSummary], gone: Iterable[str] = ()) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_PUT, [(*summary[:6], _stamp(summary.folder)) for summary in summaries])
    connection.executemany("DELETE FROM runs WHERE run=?", [(run,) for run in gone])
    connection.execute("COMMIT")


def _stamp(folder: str) -> int:
    """Changes whenever a driver takes the run, so that what was true before is not believed after."""
    try:
        return os.stat(os.path.join(folder, "lock")).st_mtime_ns
    except OSError:
        return 0


def _connect(home: str, *, write: bool = True) -> sqlite3.Connection:
    """Open the index, made anew where it is not one. No syncs: what a power cut takes is rebuilt."""
    path = os.path.join(home, "index.db")
    try:
        return _prepare(path, write)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) or not write:
            raise
        for damaged in (path, path + "-journal", path + "-wal", path + "-shm"):
            with suppress(OSError):
                os.unlink(damaged)
        return _prepare(path, write)


def _prepare(path: str, write: bool) -> sqlite3.Connection:
    connection = open_file(path, "rwc" if write else "ro", _BUSY_MS)
    try:
        if write:
            connection.execute("PRAGMA synchronous=OFF")
            if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                connection.executescript(
                    f"BEGIN IMMEDIATE; DROP TABLE IF EXISTS runs; CREATE TABLE runs(run TEXT PRIMARY KEY, kind TEXT,"
                    f" name TEXT, state TEXT, created REAL, seconds REAL, stamp INT) WITHOUT ROWID;"
                    f" PRAGMA user_version={VERSION}; COMMIT"
                )
    except BaseException:
        connection.close()
        raise
    return connection
