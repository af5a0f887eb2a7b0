"""The tables of `run.db`, and the states an item can be in. Other SQL is beside what it is for."""

from __future__ import annotations

import sqlite3

ITEM_STATES = ("waiting", "running", "done", "failed", "cached", "pruned", "stopped")
FINAL = frozenset(("done", "failed", "cached", "pruned", "stopped"))
"""What an item stays in under the driver that gave it this state."""
UNFINISHED = ("waiting", "running", "stopped")
"""What the next driver goes on with."""
RUN_STATES = ("queued", "running", "succeeded", "failed", "stopped", "interrupted")

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
    connection.execute("CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
