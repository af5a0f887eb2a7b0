"""A run in one line, read from its folder: what `ls` shows. Says `interrupted` when the driver is gone."""

from __future__ import annotations

import os
import sqlite3
from typing import Any, NamedTuple

from shoal.model import RunState
from shoal.store import meta
from shoal.store.driver import Driver
from shoal.store.lock import is_locked
from shoal.store.schema import opened_to_read
from shoal.store.sqlite import in_our_words

_KEYS = ("run", "kind", "name", "state", "created", "turn", "seconds", "began", "last", "driver")


class RunSummary(NamedTuple):
    """`seconds` is how long drivers worked on it: up to their last sign of life, where one was killed."""

    run: str
    kind: str
    name: str
    state: RunState
    created: float
    seconds: float
    folder: str


def read_summary(folder: str) -> RunSummary:
    """From the run's own record. `StoreError` when it cannot be read."""
    path, run = os.path.join(folder, "run.db"), os.path.basename(folder)
    with in_our_words(path, run):
        connection = opened_to_read(path, run)
        try:
            return summarize(connection, folder)
        finally:
            connection.close()


def summarize(connection: sqlite3.Connection, folder: str) -> RunSummary:
    known = meta.read(connection, _KEYS)
    state = RunState(known["state"])
    driver = Driver.read(known.get("driver") or {})
    lives = is_locked(os.path.join(folder, "lock")) or (driver is not None and driver.is_alive())
    if state.is_active and not lives:
        # The driver may have ended the run, or a new one begun, since we read: only what stays so is true.
        again = meta.read(connection, _KEYS)
        same = (again["state"], again["turn"]) == (state, known["turn"])
        known, state = again, RunState.INTERRUPTED if same else RunState(again["state"])
    return RunSummary(
        known["run"], known["kind"], known["name"], state, known["created"], worked(known), folder
    )


def worked(known: dict[str, Any]) -> float:
    """Seconds of work by all drivers so far; `began` is when the present one did, None between drivers."""
    seconds: float = known.get("seconds", 0.0)
    began = known.get("began")
    return seconds if began is None else seconds + max(0.0, known.get("last", began) - began)
