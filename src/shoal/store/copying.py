"""A second copy of a run's folder in a storage, so that it survives the machine that drives it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from shoal.errors import NotFound, SpecError
from shoal.files import Storage
from shoal.files.mirror import State, mirror_down, mirror_up
from shoal.store.home import make_home, run_folder
from shoal.store.sqlite import connect_to_read

RECORD = "run.db"
_SNAPSHOT = ".copy.db"
_OWN = (RECORD, _SNAPSHOT, "lock", "stop")
"""What is not copied as it lies there: the record is in use, the rest is for this machine only."""


class RunCopy:
    """Writes the copy, again and again. For one thread at a time; what was broken off is made whole by the next."""

    def __init__(self, folder: str, storage: Storage) -> None:
        self._folder = folder
        self._storage = storage
        self._prefix = _prefix(os.path.basename(folder))
        self._state: State = {}

    def write(self) -> None:
        """Bring it up to date. The record goes last, so that it never tells of files that are not there yet."""
        snapshot = os.path.join(self._folder, _SNAPSHOT)
        try:
            _backup(os.path.join(self._folder, RECORD), snapshot)
            self._state = mirror_up(
                self._folder,
                self._storage,
                self._prefix,
                self._state,
                exclude=lambda key: key in _OWN,
                remove=True,
            ).state
            self._storage.write(f"{self._prefix}/{RECORD}", Path(snapshot))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(snapshot)


def _backup(source: str, target: str) -> None:
    """The record as it is at one moment, while its driver goes on writing."""
    with suppress(FileNotFoundError):
        os.unlink(target)
    with closing(connect_to_read(source)) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)


def bring_back(storage: Storage, run: str, home: str) -> None:
    """Make the run's folder here what its copy is. `NotFound` where the storage has none."""
    if os.path.basename(run) != run or run.startswith("."):
        raise SpecError(f"{run!r} is not the id of a run.")
    if not storage.exists(f"{_prefix(run)}/{RECORD}"):
        raise NotFound(f"There is no run {run!r} here, and no copy of it in {storage.url}.")
    make_home(home)
    aside = os.path.join(home, "runs", f".coming-{run}")
    mirror_down(storage, _prefix(run), aside)
    os.rename(aside, run_folder(home, run))


def _prefix(run: str) -> str:
    return f"runs/{run}"
