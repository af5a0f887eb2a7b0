"""The tables of `run.db` in all versions. Other SQL is beside what it is for.

Version 1 (Shoal 0.1) kept what is known of the run as a whole in `meta`, and counted its drivers as `epoch`. Version 2
calls them `run` and `turn`: a driver of 0.1 that still lives finds no `meta` to write to, and fails. Version 3 has
`attempts` and `events`; before, an attempt was overwritten by the next, and changes of nodes were a value in `run`.
"""

from __future__ import annotations

import sqlite3

from shoal.errors import StoreError
from shoal.store.sqlite import connect_to_read

VERSION = 3
"""In `user_version`. A file with a higher one is from a newer Shoal, and is left alone."""

ITEM_COLUMNS = (
    *("seq", "id", "content", "occurrence", "params", "texts", "state", "attempt", "used", "node", "started"),
    *("seconds", "metrics", "error", "log_file", "log_start", "log_end", "kept"),
)
ATTEMPT_COLUMNS = (
    *("seq", "attempt", "counted", "node", "started", "seconds", "how", "error"),
    *("log_file", "log_start", "log_end"),
)
OLD_EVENTS = (
    "SELECT json_extract(value, '$.at') AS at, 'node ' || json_extract(value, '$.host') AS subject,"
    " json_extract(value, '$.change') AS what, json_extract(value, '$.why') AS why"
    " FROM json_each((SELECT value FROM run WHERE key='note.scaling'))"
)
"""The rows of `events`, from a record before version 3."""


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
    make_history(connection)


def make_history(connection: sqlite3.Connection) -> None:
    """The tables that version 3 brought."""
    connection.execute(
        "CREATE TABLE attempts(seq INT, attempt INT, counted INT, node TEXT, started REAL, seconds REAL, how TEXT,"
        " error TEXT, log_file TEXT, log_start INT, log_end INT, PRIMARY KEY(seq, attempt)) WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE events(number INTEGER PRIMARY KEY, at REAL, subject TEXT, what TEXT, why TEXT)"
    )


def opened_to_read(path: str, run: str) -> sqlite3.Connection:
    """A record of any version that this Shoal knows, seen as one of the newest. Nothing is written."""
    connection = connect_to_read(path)
    try:
        version = known_version(connection, path, run)
        if version < VERSION:
            connection.execute("PRAGMA query_only=OFF")  # For views that are the connection's own.
            if version == 1:
                connection.execute(
                    "CREATE TEMP VIEW run AS"
                    " SELECT CASE key WHEN 'epoch' THEN 'turn' ELSE key END AS key, value FROM meta"
                )
            nothing = ", ".join(f"NULL AS {name}" for name in ATTEMPT_COLUMNS)
            connection.execute(f"CREATE TEMP VIEW attempts AS SELECT {nothing} WHERE 0")
            connection.execute(
                f"CREATE TEMP VIEW events AS SELECT 0 AS number, old.* FROM ({OLD_EVENTS}) AS old"
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
