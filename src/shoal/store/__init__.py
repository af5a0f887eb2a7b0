"""The record of runs: folders, locks, items, results. The only place that knows SQL and the run folder."""

from __future__ import annotations

from shoal.store.driver import RunLock, is_locked
from shoal.store.home import (
    RunSummary,
    ensure_own,
    find_home,
    foreign,
    home_for_new_runs,
    list_runs,
    make_home,
    remove,
    resolve_run,
    run_folder,
    run_ids,
    say_whose,
)
from shoal.store.items import Columns, ItemRecord, Report, result_row
from shoal.store.journal import SqliteJournal
from shoal.store.memory_journal import MemoryJournal
from shoal.store.run import RunStore
from shoal.store.run_reader import RunInfo

__all__ = [
    "Columns",
    "ItemRecord",
    "MemoryJournal",
    "Report",
    "RunInfo",
    "RunLock",
    "RunStore",
    "RunSummary",
    "SqliteJournal",
    "ensure_own",
    "find_home",
    "foreign",
    "home_for_new_runs",
    "is_locked",
    "list_runs",
    "make_home",
    "remove",
    "resolve_run",
    "result_row",
    "run_folder",
    "run_ids",
    "say_whose",
]
