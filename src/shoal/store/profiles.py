"""Small databases in the home that may be lost: measured durations, and what kinds of work found out."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from shoal.model.plan import Profile
from shoal.store.sqlite import open_file, transaction

VERSION = 1
_BUSY_MS = 500
_TROUBLE = (sqlite3.Error, OSError)
_told: set[str] = set()
"""The files of which it was said that they are too new."""


class Database(NamedTuple):
    """One of them."""

    file: str
    steps: tuple[str, ...]
    """Statements, separated by `;`. The first step makes the tables, each later one the next version of them, with all
    that they hold. Steps are added, never changed: somewhere there is a file that took them.
    """
    holds: str | None = None
    """What people would miss, were it not read."""

    @property
    def version(self) -> int:
        return len(self.steps)


@contextmanager
def changing(home: str, database: Database) -> Iterator[sqlite3.Connection]:
    """A transaction on the file, which is made (anew) where needed. Raises as SQLite does."""
    path = os.path.join(home, database.file)
    connection = _usable(path, database)
    try:
        with transaction(connection):
            yield connection
    except sqlite3.OperationalError:
        raise  # busy, full, read-only: the file itself may be fine
    except sqlite3.DatabaseError:
        _remove(path)
        raise
    finally:
        connection.close()


@contextmanager
def reading(home: str, database: Database) -> Iterator[sqlite3.Connection]:
    """The file, to read; one that is missing, damaged or newer raises as SQLite does."""
    path = os.path.join(home, database.file)
    with closing(open_file(path, "ro", _BUSY_MS)) as connection:
        found = _version(connection, path, database)
        if found == database.version:
            yield connection
        elif found > 0:
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                connection.backup(copy)
                _take_steps(copy, path, database)
                yield copy
        else:
            raise sqlite3.OperationalError(f"{path} holds nothing")


def ignoring_trouble() -> suppress:
    """For callers to whom the file is only a help."""
    return suppress(*_TROUBLE)


def _usable(path: str, database: Database) -> sqlite3.Connection:
    try:
        return _prepared(path, database)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        _remove(path)
        return _prepared(path, database)


def _remove(path: str) -> None:
    for damaged in (path, path + "-journal"):
        with suppress(OSError):
            os.unlink(damaged)


def _prepared(path: str, database: Database) -> sqlite3.Connection:
    connection = open_file(path, "rwc", _BUSY_MS)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        if _version(connection, path, database) != database.version:
            _take_steps(connection, path, database)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: str, database: Database) -> int:
    """How many steps the file took. Raises for one that took steps which are not known here."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > database.version:
        if database.holds is not None and path not in _told:
            import logging

            _told.add(path)
            logging.getLogger(__name__).warning(
                "%s was written by a newer Shoal: %s are neither used nor added to.", path, database.holds
            )
        raise sqlite3.OperationalError(f"{path} is of version {found}")
    return found


def _take_steps(connection: sqlite3.Connection, path: str, database: Database) -> None:
    """Two processes may come here at once: the second finds them taken, and leaves it."""
    with transaction(connection):
        taken = _version(connection, path, database)
        if taken <= 0:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        for step in database.steps[max(0, taken) :]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={database.version}")


MAX_CONTENTS = 20_000
"""Durations kept for one fingerprint on one kind of node."""
MAX_PROFILES = 500
_MEMORY = 10_000
"""Measurements that an old mean counts for at most, so that new ones still move it."""
_TABLES = (
    "CREATE TABLE profiles(fingerprint TEXT, node_kind TEXT, measured INT, mean REAL, variance REAL,"
    " startup_s REAL, at REAL, PRIMARY KEY(fingerprint, node_kind)) WITHOUT ROWID;"
    "CREATE TABLE durations(fingerprint TEXT, node_kind TEXT, content TEXT, seconds REAL, at REAL,"
    " PRIMARY KEY(fingerprint, node_kind, content)) WITHOUT ROWID"
)
_PROFILES = Database("profiles.db", (_TABLES,), "the durations in it")
MOST = 500
_LEARNED_TABLES = (
    "CREATE TABLE learned(fingerprint TEXT, node_kind TEXT, document TEXT, at REAL,"
    " PRIMARY KEY(fingerprint, node_kind)) WITHOUT ROWID"
)
_LEARNED = Database("learned.db", (_LEARNED_TABLES,), "the settings learned in it")


def remember(
    home: str,
    fingerprint: str,
    node_kind: str,
    measured: Iterable[tuple[str, float]],
    *,
    now: float,
    startup_s: float | None = None,
) -> None:
    """Add the durations that a run measured, each with its content; a content measured again becomes a mean."""
    new = _Measured(measured)
    if not new.count:
        return
    key = (fingerprint, node_kind)
    with ignoring_trouble(), changing(home, _PROFILES) as connection:
        _merge_overall(connection, key, new, startup_s, now)
        connection.executemany(
            "INSERT INTO durations VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET"
            " seconds=(seconds+excluded.seconds)/2, at=excluded.at",
            [(*key, content, total / count, now) for content, (total, count) in new.contents.items()],
        )
        connection.execute(
            "DELETE FROM durations WHERE fingerprint=? AND node_kind=? AND content IN (SELECT content"
            " FROM durations WHERE fingerprint=? AND node_kind=? ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (*key, *key, MAX_CONTENTS),
        )
        _forget_oldest(connection)


def recall(home: str, fingerprint: str, node_kind: str | None = None) -> Profile | None:
    """What is known of this fingerprint: on that kind of node, or on the one measured last."""
    where = "fingerprint=?" + ("" if node_kind is None else " AND node_kind=?")
    wanted = (fingerprint,) if node_kind is None else (fingerprint, node_kind)
    with ignoring_trouble(), reading(home, _PROFILES) as connection:
        row = connection.execute(
            "SELECT node_kind, measured, mean, variance, startup_s FROM profiles"
            f" WHERE {where} ORDER BY at DESC LIMIT 1",
            wanted,
        ).fetchone()
        if row is not None:
            durations = connection.execute(
                "SELECT content, seconds FROM durations WHERE fingerprint=? AND node_kind=?",
                (fingerprint, row[0]),
            )
            kind, measured, mean, variance, startup_s = row
            known = dict(durations.fetchall())
            return Profile(fingerprint, kind, measured, mean, variance, startup_s, known)
    return None


class _Measured:
    """What a run measured, in one pass and little memory: count, mean, spread, and sums of some contents."""

    def __init__(self, measured: Iterable[tuple[str, float]]) -> None:
        self.count = 0
        self.mean = 0.0
        self.spread = 0.0
        """The sum of squared distances from the mean (Welford)."""
        self.contents: dict[str, tuple[float, int]] = {}
        for content, seconds in measured:
            self.count += 1
            shift = seconds - self.mean
            self.mean += shift / self.count
            self.spread += shift * (seconds - self.mean)
            if content in self.contents or len(self.contents) < MAX_CONTENTS:
                total, count = self.contents.get(content, (0.0, 0))
                self.contents[content] = (total + seconds, count + 1)


def _merge_overall(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    new: _Measured,
    startup_s: float | None,
    now: float,
) -> None:
    """Mean and variance of the old and the new measurements together (Chan's formula)."""
    query = "SELECT measured, mean, variance, startup_s FROM profiles WHERE fingerprint=? AND node_kind=?"
    count, mean, variance, startup_before = connection.execute(query, key).fetchone() or (0, 0.0, 0.0, None)
    weight, total = min(count, _MEMORY), min(count, _MEMORY) + new.count
    shift = new.mean - mean
    variance = (weight * variance + new.spread) / total + shift * shift * weight * new.count / total**2
    mean += shift * new.count / total
    if startup_s is not None and startup_before is not None:
        startup_s = (startup_before + startup_s) / 2
    startup_s = startup_before if startup_s is None else startup_s
    values = (*key, count + new.count, mean, variance, startup_s, now)
    connection.execute("INSERT OR REPLACE INTO profiles VALUES(?,?,?,?,?,?,?)", values)


def _forget_oldest(connection: sqlite3.Connection) -> None:
    query = "SELECT fingerprint, node_kind FROM profiles ORDER BY at DESC LIMIT -1 OFFSET ?"
    for key in connection.execute(query, (MAX_PROFILES,)).fetchall():
        for table in ("profiles", "durations"):
            connection.execute(f"DELETE FROM {table} WHERE fingerprint=? AND node_kind=?", key)


def remember_learned(
    home: str, fingerprint: str, learned: Mapping[str, Mapping[str, Any]], *, now: float
) -> None:
    """Keep these documents, by the kind of node, in place of what was kept before."""
    if not learned:
        return
    rows = [(fingerprint, kind, json.dumps(document), now) for kind, document in learned.items()]
    with ignoring_trouble(), changing(home, _LEARNED) as connection:
        connection.executemany("INSERT OR REPLACE INTO learned VALUES(?,?,?,?)", rows)
        connection.execute(
            "DELETE FROM learned WHERE (fingerprint, node_kind) IN"
            " (SELECT fingerprint, node_kind FROM learned ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST,),
        )


def recall_learned(home: str, fingerprint: str) -> dict[str, dict[str, Any]]:
    """What is known of this fingerprint, by the kind of node."""
    with ignoring_trouble(), reading(home, _LEARNED) as connection:
        found = connection.execute(
            "SELECT node_kind, document FROM learned WHERE fingerprint=?", (fingerprint,)
        )
        return {kind: json.loads(document) for kind, document in found.fetchall()}
    return {}
