"""Small databases that may be lost: what they hold can be found out again. No syncs; a damaged one goes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shoal.store.sqlite import open_file, transaction

VERSION = 1
_BUSY_MS = 500
_TROUBLE = (sqlite3.Error, OSError)


@contextmanager
def changing(path: str, tables: str) -> Iterator[sqlite3.Connection]:
    """A transaction on the file, which is made (anew) where needed. Raises as SQLite does."""
    connection = _usable(path, tables)
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
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """The file, to read; one that is missing, damaged or of another version raises as SQLite does."""
    connection = open_file(path, "ro", _BUSY_MS)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            raise sqlite3.OperationalError("another version")
        yield connection
    finally:
        connection.close()


def ignoring_trouble() -> suppress:
    """For callers to whom the file is only a help."""
    return suppress(*_TROUBLE)


def _usable(path: str, tables: str) -> sqlite3.Connection:
    try:
        return _prepared(path, tables)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        _remove(path)
        return _prepared(path, tables)


def _remove(path: str) -> None:
    for damaged in (path, path + "-journal"):
        with suppress(OSError):
            os.unlink(damaged)


def _prepared(path: str, tables: str) -> sqlite3.Connection:
    connection = open_file(path, "rwc", _BUSY_MS)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            _make_anew(connection, tables)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_anew(connection: sqlite3.Connection, tables: str) -> None:
    """Two processes may come here at once: the second finds it made, and leaves it."""
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            return
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        for statement in tables.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
