"""The tables of `run.db` in all versions. Other SQL is beside what it is for.

Version 1 (Shoal 0.1) kept what is known of the run as a whole in `meta`, and counted its drivers as `epoch`. Version 2
calls them `run` and `turn`: a driver of 0.1 that still lives finds no `meta` to write to, and fails.
"""

from __future__ import annotations

import sqlite3

from shoal.errors import StoreError
from shoal.store.sqlite import connect_to_read

VERSION = 2
"""In `user_version`. A file with a higher one is from a newer Shoal, and is left alone."""

ITEM_COLUMNS = (
    *("seq", "id", "content", "occurrence", "params", "texts", "state", "attempt", "used", "node", "started"),
    *("seconds", "metrics", "error", "log_file", "log_start", "log_end", "kept"),
)


def make_tables(connection: sqlite3.Connection) -> None:
    """All tables. No index but the keys: each would cost every insert more than it saves a reader."""
    connection.execute(
        "CREATE TABLE items(seq INTEGER PRIMARY KEY, id TEXT, content TEXT, occurrence INT, params TEXT,"
        " texts TEXT, state TEXT, attempt INT, used INT, node TEXT, started REAL, seconds REAL, metrics TEXT,"
        " error TEXT, log_file TEXT, log_start INT, log_end INT, kept INT)"
    )
    connection.execute(
        "CREATE TABLE reports(seq INT, attempt INT, number INT, step INT, at REAL, metrics TEXT,"
        " PRIMARY KEY(seq, attempt, number)) WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE run(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")


def opened_to_read(path: str, run: str) -> sqlite3.Connection:
    """A record of any version that this Shoal knows, seen as one of the newest. Nothing is written."""
    connection = connect_to_read(path)
    try:
        if known_version(connection, path, run) == 1:
            connection.execute("PRAGMA query_only=OFF")  # For a view that is the connection's own.
            connection.execute(
                "CREATE TEMP VIEW run AS"
                " SELECT CASE key WHEN 'epoch' THEN 'turn' ELSE key END AS key, value FROM meta"
            )
            connection.execute("PRAGMA query_only=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def known_version(connection: sqlite3.Connection, path: str, run: str) -> int:
    """The version of the tables; `StoreError` for those that this Shoal does not know."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        raise StoreError(f"{path} is not the record of a run.", hint="Remove its folder.")
    if found > VERSION:
        raise StoreError(f"Run {run!r} was written by a newer Shoal.", hint="Upgrade Shoal to read it.")
    return found
