"""The tables of `run.db` in all versions: states, how values are written, facts of the run, migration."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.errors import StoreError
from shoal.model import DEPTH, Item
from shoal.model.item import encoder
from shoal.store.sqlite import connect_to_read, transaction

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
NOTE = "note."
"""Before the names of what is kept for people (`Kept`): kinds name their documents, and must not meet other keys."""


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


def migrate(connection: sqlite3.Connection, folder: str) -> None:
    """Bring the record of the run in this folder to the present version, whole or not at all. May be called again."""
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 1:
            _adopt_checkpoints(connection, folder)
            connection.execute("ALTER TABLE meta RENAME TO run")
            connection.execute("UPDATE run SET key='turn' WHERE key='epoch'")
        if version < 3:
            make_history(connection)
            connection.execute(f"INSERT INTO events(at, subject, what, why) {OLD_EVENTS}")
            connection.execute("DELETE FROM run WHERE key='note.scaling'")
        connection.execute(f"PRAGMA user_version={VERSION}")


def _adopt_checkpoints(connection: sqlite3.Connection, folder: str) -> None:
    """Version 1 named checkpoints by the item's id alone. They are kept for items that are recorded as begun: another
    may have been handed out under the same id, and never recorded.
    """
    root = os.path.join(folder, "checkpoints")
    try:
        present = set(os.listdir(root))
    except OSError:
        return
    for seq, identity, content in connection.execute("SELECT seq, id, content FROM items WHERE attempt > 0"):
        if identity in present:
            named = Item(seq, identity, {}, content=content).checkpoint
            with suppress(OSError):
                os.rename(os.path.join(root, identity), os.path.join(root, named))


def plain(value: Any) -> Any:
    """The JSON value nearest to something that is none: numpy by value, the rest as text."""
    for method in ("item", "tolist"):
        convert = getattr(value, method, None)
        if callable(convert):
            try:
                return convert()
            except (TypeError, ValueError):
                continue
    if isinstance(value, (set, frozenset, Mapping)):
        return dict(value) if isinstance(value, Mapping) else list(value)
    return str(value)


_encode = encoder(plain, skipkeys=True)


def encode(values: Mapping[str, Any]) -> str:
    """The text of a mapping; never fails, so that no result is lost to the way it was written."""
    try:
        return _encode(values)
    except (TypeError, ValueError, RecursionError):
        return _encode({str(name): _encode_one(value) for name, value in values.items()})


def _encode_one(value: Any) -> Any:
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    return value


def decode(texts: Sequence[str | None]) -> list[dict[str, Any]]:
    """The mappings of many texts, an empty one for None. In one call, which is three times as fast as many."""
    values: list[dict[str, Any]] = json.loads(_together(texts))
    return values


def _together(texts: Sequence[str | None]) -> str:
    return f"[{','.join([text or '{}' for text in texts])}]"


def readable(texts: Sequence[str | None]) -> list[dict[str, Any]]:
    """As `decode`, for people to look at: never fails, and what is nested too deep for programs comes as its text."""
    together = _together(texts)
    try:
        values: list[dict[str, Any]] = json.loads(together)
    except (ValueError, RecursionError):
        return [_decode_one(text or "{}") for text in texts]
    if together.count("[") + together.count("{") <= len(texts) + DEPTH:
        return values
    return [_shallow(each) for each in values]


def _decode_one(text: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return _shallow(value)


def _shallow(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if _fits(value, DEPTH) else _text(value) for name, value in values.items()}


def _fits(value: Any, room: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return room > 0 and all(_fits(part, room - 1) for part in parts)


def _text(value: Any) -> str:
    try:
        return _encode(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def number(value: Any) -> float | int | None:
    """The value when it can be compared with others: not NaN, not a truth value, not text."""
    if type(value) not in (float, int):
        value = plain(value) if hasattr(value, "item") else value
        if not isinstance(value, (float, int)) or isinstance(value, bool):
            return None
    return value if value == value else None
