"""A second copy of a run's folder in a storage, so that it survives the machine that drives it.

Beside it stand the drivers that it had, numbered. Only the last one writes: an earlier one may still live, cut off.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from shoal.errors import NotFound, SpecError, StoreError
from shoal.files import Storage
from shoal.files.mirror import State, mirror_down, mirror_up
from shoal.files.turns import Turns
from shoal.store.home import make_home, run_folder
from shoal.store.sqlite import connect_to_read, in_our_words

RECORD = "run.db"
_SNAPSHOT = ".copy.db"
_OWN = (RECORD, *(f"{RECORD}-{end}" for end in ("wal", "shm", "journal")), _SNAPSHOT, "lock", "stop")
"""What is not copied as it lies there: the record is in use, the rest is for this machine only."""
_DRIVERS = "drivers"
"""Below it, the turns of those who wrote the copy."""


class RunCopy:
    """Writes the copy, again and again. For one thread at a time; what was broken off is made whole by the next.

    From its first `write` on it is the one that writes, until a later `RunCopy` of the run, or `bring_back`.
    """

    def __init__(self, folder: str, storage: Storage) -> None:
        self._folder = folder
        self._storage = storage
        self._run = os.path.basename(folder)
        self._prefix = _prefix(self._run)
        self._state: State = {}
        self._number: int | None = None
        """Which of the run's drivers this is."""

    def write(self) -> None:
        """Bring it up to date. The record goes last, so that it never tells of files that are not there yet.

        Raises `StoreError` where another driver has the run by now; its copy is left as it is.
        """
        snapshot = os.path.join(self._folder, _SNAPSHOT)
        if self._number is None:
            self._number = _take_next(self._storage, self._run)
        self._ensure_last(self._number)
        try:
            with in_our_words(snapshot, self._run):
                _backup(os.path.join(self._folder, RECORD), snapshot)
            self._state = mirror_up(
                self._folder,
                self._storage,
                self._prefix,
                self._state,
                exclude=lambda key: key in _OWN,
                remove=True,
            ).state
            self._ensure_last(self._number)
            self._storage.write(f"{self._prefix}/{RECORD}", Path(snapshot))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(snapshot)

    def _ensure_last(self, number: int) -> None:
        if Turns(self._storage, f"{self._prefix}/{_DRIVERS}").highest() > number:
            raise StoreError(
                f"Run {self._run!r} is driven from elsewhere by now: its copy is that driver's.",
                hint="Stop this one: what it does from now on is not in the copy.",
            )


def _backup(source: str, target: str) -> None:
    """The record as it is at one moment, while its driver goes on writing."""
    with suppress(FileNotFoundError):
        os.unlink(target)
    with closing(connect_to_read(source)) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)


def bring_back(storage: Storage, run: str, home: str) -> None:
    """Make the run's folder here what its copy is. `NotFound` where the storage has none.

    Whoever wrote the copy until now does not write it any more: what follows happens here.
    """
    if os.path.basename(run) != run or run.startswith("."):
        raise SpecError(f"{run!r} is not the id of a run.")
    if not storage.exists(f"{_prefix(run)}/{RECORD}"):
        raise NotFound(f"There is no run {run!r} here, and no copy of it in {storage.url}.")
    make_home(home)
    aside = os.path.join(home, "runs", f".coming-{run}")
    _take_next(storage, run)
    mirror_down(storage, _prefix(run), aside, exclude=lambda key: key.startswith(f"{_DRIVERS}/"))
    os.rename(aside, run_folder(home, run))


def _prefix(run: str) -> str:
    return f"runs/{run}"


def _take_next(storage: Storage, run: str) -> int:
    turns = Turns(storage, f"{_prefix(run)}/{_DRIVERS}")
    number = turns.highest() + 1
    while not turns.take(number, {"token": os.urandom(8).hex()}):
        number += 1
    return number
