"""Connections to SQLite files, and its errors in our words. Knows no run: the tables are in `schema`.

Connections may be handed from thread to thread, but used by one at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC

from shoal.errors import StoreError
from shoal.files import on_network, sync_file, sync_folder

BUSY_MS = 20_000

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-~")


def connect(path: str, *, busy_ms: int = BUSY_MS, synchronous: str = "FULL") -> sqlite3.Connection:
    """Open an existing file for writing. On a network file system without WAL, which needs shared memory."""
    connection = open_file(path, "rw", busy_ms)
    try:
        wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        if on_network(path):
            connection.execute("PRAGMA mmap_size=0")
            connection.execute("PRAGMA journal_mode=TRUNCATE")
        elif not wal:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: str, *, busy_ms: int = BUSY_MS) -> sqlite3.Connection:
    """Open an existing file for reading; works beside a writer, and where nothing can be written.

    Opened as if to write where that is allowed, so that closing it leaves no file of SQLite's own behind.
    """
    connection = open_file(path, "rw", busy_ms)
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if _has_content(path + "-wal"):
            raise  # what is in there would be missing
        connection = open_file(path, "ro&immutable=1", busy_ms)  # nobody can write here, so nobody does
    except BaseException:
        connection.close()
        raise
    return connection


def build(path: str, version: int, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a new file with the tables that `fill` makes, of this version, whole or not at all, and durable.

    Made aside without any sync, then synced once: on a slow disk it is the syncs that take the time.
    """
    folder, name = os.path.split(path)
    aside = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        connection = open_file(aside, "rwc", BUSY_MS)
        try:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("BEGIN")
            fill(connection)
            connection.execute(f"PRAGMA user_version={version}")
            connection.execute("COMMIT")
            if not on_network(path):
                connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()
        sync_file(aside)
        os.replace(aside, path)
    except BaseException:
        for leftover in (aside, aside + "-wal", aside + "-shm"):
            with suppress(OSError):
                os.unlink(leftover)
        raise
    sync_folder(folder)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or none of it. After an error, the connection can be used again."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


@contextmanager
def in_our_words(path: str, run: str) -> Iterator[None]:
    """Errors of SQLite and the system become a `StoreError` that says what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise store_error(error, path, run) from error


def store_error(error: sqlite3.Error | OSError, path: str, run: str) -> StoreError:
    """The sentence and the hint for what SQLite or the system said."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        name = "SQLITE_FULL"
    again = f"then `shoal resume {run}`"
    for prefix, what, hint in (
        ("SQLITE_FULL", "the disk is full", f"Free some space, {again}."),
        ("SQLITE_IOERR", "the disk refused to read or write", f"Check the disk and its free space, {again}."),
        ("SQLITE_READONLY", "it is read-only", f"Make its folder writable, {again}."),
        ("SQLITE_CANTOPEN", "it cannot be opened", f"Check that its folder is there and writable, {again}."),
        ("SQLITE_PERM", "permission is denied", f"Make its folder writable, {again}."),
        ("SQLITE_BUSY", "another program keeps it locked", f"Close what has the file open, {again}."),
        ("SQLITE_LOCKED", "another program keeps it locked", f"Close what has the file open, {again}."),
        ("SQLITE_PROTOCOL", "its file system has no working locks", "Set SHOAL_HOME to a local disk."),
        ("SQLITE_NOLFS", "it is too large for its file system", "Set SHOAL_HOME to another disk."),
        ("SQLITE_CORRUPT", "it is damaged", "Restore it from a copy, or remove the run's folder."),
        ("SQLITE_NOTADB", "it is not a database", "Restore it from a copy, or remove the run's folder."),
    ):
        if name.startswith(prefix):
            return StoreError(f"The record of run {run!r} failed: {what} ({path}: {error}).", hint=hint)
    return StoreError(
        f"The record of run {run!r} failed: {error} ({path}).",
        hint=f"Check the disk and its free space, {again}.",
    )


def clean(text: str | None) -> str | None:
    """The text as SQLite can store it: half a surrogate pair is no character."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def open_file(path: str, mode: str, busy_ms: int) -> sqlite3.Connection:
    """A bare connection; `mode` is ro, rw or rwc. Transactions begin only where we say so."""
    return sqlite3.connect(
        f"file://{_quoted(os.path.abspath(path))}?mode={mode}",
        uri=True,
        timeout=busy_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
    )


def _quoted(path: str) -> str:
    """As in `urllib.parse.quote`, which is too slow to import here."""
    return "".join(chr(byte) if chr(byte) in _SAFE else f"%{byte:02X}" for byte in os.fsencode(path))


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False
