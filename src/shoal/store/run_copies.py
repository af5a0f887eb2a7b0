"""A second copy of a run's folder in a storage, so that it survives its machine; where a folder came from."""

from __future__ import annotations

import hmac
import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from shoal.errors import NotFound, SpecError, StoreError
from shoal.files import Storage, make_closed, write_text
from shoal.files.mirror import State, mirror_down, mirror_up
from shoal.files.turns import Turns, suspended_at
from shoal.store.driver import UNDRIVEN, Driver
from shoal.store.home import make_home, run_folder
from shoal.store.run import RunStore
from shoal.store.sqlite import connect_to_read, in_our_words

RECORD = "run.db"
_SNAPSHOT = ".copy-"
"""And the turn: how a copy of the record is called until it has been sent."""
_OWN = (RECORD, *(f"{RECORD}-{end}" for end in ("wal", "shm", "journal")), "lock", "stop", UNDRIVEN)
"""What is not copied as it lies there: the record is in use, the rest is for this machine only."""
_COPIES = "copies"
_TURNS = "turns"
_APART = (_TURNS, _COPIES, "drivers")
"""What is beside a copy of 0.1, which lies where the copies of turns do now, and is no part of it."""
_SEAL = "seal"
_ORIGIN = "origin"


def turns_of(storage: Storage, run: str) -> Turns:
    """Where the turns of a run are written down in a storage."""
    return Turns(storage, f"{_prefix(run)}/{_TURNS}")


class RunCopy:
    """Writes the copy of one turn, again and again. For one thread at a time; what was broken off is made whole by the
    next `write`."""

    def __init__(self, folder: str, storage: Storage, turn: int) -> None:
        self._folder = folder
        self._storage = storage
        self._run = os.path.basename(folder)
        self._turn = turn
        self._prefix = f"{_prefix(self._run)}/{_COPIES}/{turn}"
        self._state: State = {}
        self._is_whole = False

    def write(self) -> Sequence[tuple[str, str]]:
        """Bring it up to date: which files could not be copied, and why. They do not hold up the record, which goes
        last, so that it never tells of files that are on their way.

        Raises `StoreError` where another driver has the run by now.
        """
        if turns_of(self._storage, self._run).highest() > self._turn:
            raise StoreError(f"Run {self._run!r} is driven from elsewhere by now.")
        suspended_at("copy")
        snapshot = os.path.join(self._folder, f"{_SNAPSHOT}{self._turn}")
        try:
            with in_our_words(snapshot, self._run):
                _backup(os.path.join(self._folder, RECORD), snapshot)
            mirrored = mirror_up(
                self._folder,
                self._storage,
                self._prefix,
                self._state,
                exclude=lambda key: key in _OWN or key.startswith(_SNAPSHOT),
                remove=True,
            )
            self._state = mirrored.state
            self._storage.write(f"{self._prefix}/{RECORD}", Path(snapshot))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(snapshot)
        if not self._is_whole and not mirrored.failed:
            self._remove_earlier()
            self._is_whole = True
        return mirrored.failed

    def _remove_earlier(self) -> None:
        """Copies of earlier turns, their records first: half of one must not count."""
        copies = f"{_prefix(self._run)}/{_COPIES}"
        keys = [entry.key for entry in self._storage.list(copies, hidden=True)]
        old = [key for key in keys if (_turn_of(key, copies) or self._turn) < self._turn]
        for key in sorted(old, key=lambda key: not key.endswith(f"/{RECORD}")):
            self._storage.delete(key)


def _backup(source: str, target: str) -> None:
    """The record as it is at one moment, while its driver goes on writing."""
    with suppress(FileNotFoundError):
        os.unlink(target)
    with closing(connect_to_read(source)) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)


def copied_turn(storage: Storage, run: str) -> int:
    """The turn of the newest copy that is whole; 0 where there is none, or only one of 0.1."""
    copies = f"{_prefix(run)}/{_COPIES}"
    found = [entry.key for entry in storage.list(copies, f"*/{RECORD}")]
    return max((turn for key in found if (turn := _turn_of(key, copies)) is not None), default=0)


def is_outdated(store: RunStore, storage: Storage) -> bool:
    """Whether the newest copy is of another driver than the last one here, or may be newer than what was brought."""
    copied, here = copied_turn(storage, store.run), store.turn()
    if copied != here:
        return copied > here
    if os.path.exists(os.path.join(store.folder, UNDRIVEN)):
        return True
    driver = Driver.read(turns_of(storage, store.run).driver(copied))
    return driver is not None and driver != store.last_driver()[0]


def bring_back(storage: Storage, run: str, home: str) -> None:
    """Make the run's folder here what its newest copy is. `NotFound` where the storage has none.

    A folder that is here already, of a driver before, is kept aside. No turn is taken: who goes on with the run does.
    """
    if os.path.basename(run) != run or run.startswith("."):
        raise SpecError(f"{run!r} is not the id of a run.")
    turn = copied_turn(storage, run)
    prefix = f"{_prefix(run)}/{_COPIES}/{turn}" if turn else _prefix(run)
    if not storage.exists(f"{prefix}/{RECORD}"):
        raise NotFound(f"There is no run {run!r} here, and no copy of it in {storage.url}.")
    make_home(home)
    aside = os.path.join(home, "runs", f".coming-{run}")
    shutil.rmtree(aside, ignore_errors=True)
    make_closed(aside)
    mirror_down(storage, prefix, aside, exclude=None if turn else _is_apart)
    mark(aside, storage.url)
    write_text(os.path.join(aside, UNDRIVEN), "", durable=False)
    folder = run_folder(home, run)
    if os.path.lexists(folder):
        before = os.path.join(home, "runs", f".before-{run}")
        shutil.rmtree(before, ignore_errors=True)
        os.rename(folder, before)
    os.rename(aside, folder)


def _is_apart(key: str) -> bool:
    return key.partition("/")[0] in _APART


def _turn_of(key: str, copies: str) -> int | None:
    number = key.removeprefix(f"{copies}/").partition("/")[0]
    return int(number) if number.isdecimal() else None


def _prefix(run: str) -> str:
    return f"runs/{run}"


def mark(folder: str, url: str) -> None:
    """Write down that this folder was brought back from there."""
    write_text(os.path.join(folder, _ORIGIN), url)


def seal(store: RunStore, key: bytes, files: Sequence[str]) -> None:
    """This user starts what is there now: the spec, the document, and these files of the folder."""
    write_text(os.path.join(store.folder, _SEAL), _digest(store, key, files))


def source(folder: str) -> str | None:
    """The storage that this folder was brought back from; None for one that was made here."""
    return _text(os.path.join(folder, _ORIGIN))


def is_sealed(store: RunStore, key: bytes, files: Sequence[str]) -> bool:
    """Whether this user sealed it, and it is what it was then."""
    found = _text(os.path.join(store.folder, _SEAL)) or ""
    return hmac.compare_digest(found.encode(), _digest(store, key, files).encode())


def _digest(store: RunStore, key: bytes, files: Sequence[str]) -> str:
    parts = [
        store.run.encode(),
        store.spec_text.encode("utf-8", "replace"),
        json.dumps(store.document).encode(),
    ]
    for name in files:
        try:
            with open(os.path.join(store.folder, name), "rb") as file:
                parts.append(file.read())
        except FileNotFoundError:
            parts.append(b"")
    made = hmac.new(key, digestmod="sha256")
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except FileNotFoundError:
        return None
