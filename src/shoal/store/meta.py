"""What is known of a run as a whole: keys and JSON values in one small table. Items are elsewhere."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

NOTE = "note."
"""Before the names of what is kept for people (`Kept`): kinds name their documents, and must not meet other keys."""


def read(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Any]:
    """Those of the keys that exist."""
    wanted = list(keys)
    marks = ",".join("?" * len(wanted))
    rows = connection.execute(f"SELECT key, value FROM run WHERE key IN ({marks})", wanted)
    return {key: json.loads(value) for key, value in rows}


def read_one(connection: sqlite3.Connection, key: str, default: Any = None) -> Any:
    row = connection.execute("SELECT value FROM run WHERE key=?", (key,)).fetchone()
    return default if row is None else json.loads(row[0])


def read_notes(connection: sqlite3.Connection) -> dict[str, Any]:
    """The values that callers named, by their names."""
    rows = connection.execute(
        "SELECT substr(key, ?), value FROM run WHERE key GLOB ?", (len(NOTE) + 1, f"{NOTE}*")
    )
    return {key: json.loads(value) for key, value in rows}


def write(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Inside a transaction of the caller's."""
    connection.executemany(
        "INSERT INTO run VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value",
        [(key, json.dumps(value)) for key, value in values.items()],
    )
