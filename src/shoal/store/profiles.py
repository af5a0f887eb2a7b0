"""Measured durations in `profiles.db`, under a fingerprint of the workload and the kind of node.

Only a help to planning: what cannot be written or read is left out, and fails nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from shoal.model.profile import Profile
from shoal.store.disposable import Database, changing, ignoring_trouble, reading

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
_PROFILES = Database("profiles.db", (_TABLES,), "the durations in it")


def remember(
    home: str,
    fingerprint: str,
    node_kind: str,
    measured: Iterable[tuple[str, float]],
    *,
    now: float,
    startup_s: float | None = None,
) -> None:
    """Add the durations that a run measured, each with its content; a content measured again becomes a mean."""
    new = _Measured(measured)
    if not new.count:
        return
    key = (fingerprint, node_kind)
    with ignoring_trouble(), changing(home, _PROFILES) as connection:
        _merge_overall(connection, key, new, startup_s, now)
        connection.executemany(
            "INSERT INTO durations VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET"
            " seconds=(seconds+excluded.seconds)/2, at=excluded.at",
            [(*key, content, total / count, now) for content, (total, count) in new.contents.items()],
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
    with ignoring_trouble(), reading(home, _PROFILES) as connection:
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


class _Measured:
    """What a run measured, in one pass and little memory: count, mean, spread, and sums of some contents."""

    def __init__(self, measured: Iterable[tuple[str, float]]) -> None:
        self.count = 0
        self.mean = 0.0
        self.spread = 0.0
        """The sum of squared distances from the mean (Welford)."""
        self.contents: dict[str, tuple[float, int]] = {}
        for content, seconds in measured:
            self.count += 1
            shift = seconds - self.mean
            self.mean += shift / self.count
            self.spread += shift * (seconds - self.mean)
            if content in self.contents or len(self.contents) < MAX_CONTENTS:
                total, count = self.contents.get(content, (0.0, 0))
                self.contents[content] = (total + seconds, count + 1)


def _merge_overall(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    new: _Measured,
    startup_s: float | None,
    now: float,
) -> None:
    """Mean and variance of the old and the new measurements together (Chan's formula)."""
    query = "SELECT measured, mean, variance, startup_s FROM profiles WHERE fingerprint=? AND node_kind=?"
    count, mean, variance, startup_before = connection.execute(query, key).fetchone() or (0, 0.0, 0.0, None)
    weight, total = min(count, _MEMORY), min(count, _MEMORY) + new.count
    shift = new.mean - mean
    variance = (weight * variance + new.spread) / total + shift * shift * weight * new.count / total**2
    mean += shift * new.count / total
    if startup_s is not None and startup_before is not None:
        startup_s = (startup_before + startup_s) / 2
    startup_s = startup_before if startup_s is None else startup_s
    values = (*key, count + new.count, mean, variance, startup_s, now)
    connection.execute("INSERT OR REPLACE INTO profiles VALUES(?,?,?,?,?,?,?)", values)


def _forget_oldest(connection: sqlite3.Connection) -> None:
    query = "SELECT fingerprint, node_kind FROM profiles ORDER BY at DESC LIMIT -1 OFFSET ?"
    for key in connection.execute(query, (MAX_PROFILES,)).fetchall():
        for table in ("profiles", "durations"):
            connection.execute(f"DELETE FROM {table} WHERE fingerprint=? AND node_kind=?", key)
