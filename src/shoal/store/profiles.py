"""Measured durations in `profiles.db`, under a fingerprint of the workload and the kind of node.

Only a help to planning: what cannot be written or read is left out, and fails nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from shoal.model.profile import Profile
from shoal.store.disposable import changing, ignoring_trouble, reading

MAX_CONTENTS = 20_000
"""Durations kept for one fingerprint on one kind of node."""
MAX_PROFILES = 500
_MEMORY = 10_000
"""Measurements that an old mean counts for at most, so that new ones still move it."""
_TABLES = (
    "CREATE TABLE profiles(fingerprint TEXT, node_kind TEXT, measured INT, mean REAL, variance REAL,"
    " startup_s REAL, at REAL, PRIMARY KEY(fingerprint, node_kind)) WITHOUT ROWID;"
    "CREATE TABLE durations(fingerprint TEXT, node_kind TEXT, content TEXT, seconds REAL, at REAL,"
    " PRIMARY KEY(fingerprint, node_kind, content)) WITHOUT ROWID"
)


def remember(
    home: str,
    fingerprint: str,
    node_kind: str,
    measured: Sequence[tuple[str, float]],
    *,
    now: float,
    startup_s: float | None = None,
) -> None:
    """Add the durations that a run measured, each with its content; a content measured again becomes a mean."""
    seconds = _means(measured)
    key = (fingerprint, node_kind)
    with ignoring_trouble(), changing(os.path.join(home, "profiles.db"), _TABLES) as connection:
        _merge_overall(connection, key, [each for _, each in measured], startup_s, now)
        newest = list(seconds.items())[-MAX_CONTENTS:]
        connection.executemany(
            "INSERT INTO durations VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET"
            " seconds=(seconds+excluded.seconds)/2, at=excluded.at",
            [(*key, content, value, now) for content, value in newest],
        )
        connection.execute(
            "DELETE FROM durations WHERE fingerprint=? AND node_kind=? AND content IN (SELECT content"
            " FROM durations WHERE fingerprint=? AND node_kind=? ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (*key, *key, MAX_CONTENTS),
        )
        _forget_oldest(connection)


def recall(home: str, fingerprint: str, node_kind: str | None = None) -> Profile | None:
    """What is known of this fingerprint: on that kind of node, or on the one measured last."""
    where = "fingerprint=?" + ("" if node_kind is None else " AND node_kind=?")
    wanted = (fingerprint,) if node_kind is None else (fingerprint, node_kind)
    with ignoring_trouble(), reading(os.path.join(home, "profiles.db")) as connection:
        row = connection.execute(
            "SELECT node_kind, measured, mean, variance, startup_s FROM profiles"
            f" WHERE {where} ORDER BY at DESC LIMIT 1",
            wanted,
        ).fetchone()
        if row is not None:
            durations = connection.execute(
                "SELECT content, seconds FROM durations WHERE fingerprint=? AND node_kind=?",
                (fingerprint, row[0]),
            )
            kind, measured, mean, variance, startup_s = row
            known = dict(durations.fetchall())
            return Profile(fingerprint, kind, measured, mean, variance, startup_s, known)
    return None


def _means(measured: Sequence[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, tuple[float, int]] = {}
    for content, seconds in measured:
        total, count = sums.get(content, (0.0, 0))
        sums[content] = (total + seconds, count + 1)
    return {content: total / count for content, (total, count) in sums.items()}


def _merge_overall(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    new: list[float],
    startup_s: float | None,
    now: float,
) -> None:
    """Mean and variance of the old and the new measurements together (Chan's formula)."""
    query = "SELECT measured, mean, variance, startup_s FROM profiles WHERE fingerprint=? AND node_kind=?"
    count, mean, variance, startup_before = connection.execute(query, key).fetchone() or (0, 0.0, 0.0, None)
    weight, total = min(count, _MEMORY), min(count, _MEMORY) + len(new)
    if new:
        new_mean = sum(new) / len(new)
        shift = new_mean - mean
        spread = sum((value - new_mean) ** 2 for value in new)
        variance = (weight * variance + spread) / total + shift * shift * weight * len(new) / total**2
        mean += shift * len(new) / total
    if startup_s is not None and startup_before is not None:
        startup_s = (startup_before + startup_s) / 2
    startup_s = startup_before if startup_s is None else startup_s
    values = (*key, count + len(new), mean, variance, startup_s, now)
    connection.execute("INSERT OR REPLACE INTO profiles VALUES(?,?,?,?,?,?,?)", values)


def _forget_oldest(connection: sqlite3.Connection) -> None:
    query = "SELECT fingerprint, node_kind FROM profiles ORDER BY at DESC LIMIT -1 OFFSET ?"
    for key in connection.execute(query, (MAX_PROFILES,)).fetchall():
        for table in ("profiles", "durations"):
            connection.execute(f"DELETE FROM {table} WHERE fingerprint=? AND node_kind=?", key)
