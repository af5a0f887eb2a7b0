"""What kinds of work found out by themselves, such as the best batch size, as JSON in `learned.db`.

Only a help to later runs: what cannot be written or read is left out, and fails nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.store.disposable import Database, changing, ignoring_trouble, reading

MOST = 500
_TABLES = (
    "CREATE TABLE learned(fingerprint TEXT, node_kind TEXT, document TEXT, at REAL,"
    " PRIMARY KEY(fingerprint, node_kind)) WITHOUT ROWID"
)
_LEARNED = Database("learned.db", (_TABLES,), "the settings learned in it")


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
