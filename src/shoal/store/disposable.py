"""Small databases in the home that may be lost: what they hold can be found out again. No syncs; a damaged one goes.

Each has a version of its own, in `user_version`: how many of its steps were taken. An older file is brought up to date
when something is written, and read through a copy until then. A newer one is left alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

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
