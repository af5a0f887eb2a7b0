"""Records of older versions, brought to the present one when a driver opens them. For readers, see `schema`."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from shoal.model import Item
from shoal.store.schema import OLD_EVENTS, VERSION, make_history
from shoal.store.sqlite import transaction


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
