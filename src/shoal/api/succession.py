"""Runs that an earlier driver left: found here or in a storage, and opened unless that driver may still be alive."""

from __future__ import annotations

import os
from contextlib import suppress

from shoal.api.clusters.lifecycle import load
from shoal.api.session import STOP_FILE
from shoal.cluster.base import Tell
from shoal.cluster.here import Here
from shoal.errors import FileError, NotFound, RunLocked, SpecError
from shoal.files import Storage, open_storage
from shoal.store import RunStore, resolve_run
from shoal.store.driver import Driver, refuse_the_living
from shoal.store.run_copies import bring_back, is_outdated, turns_of


def found(home: str, run: str, cluster: str | None, tell: Tell) -> str:
    """The run that is meant; one that is not here is brought back from the storage of the cluster."""
    try:
        return resolve_run(home, run)
    except NotFound:
        storage = _storage_of(cluster)
        if storage is None:
            raise
    bring_back(storage, run, home)
    tell(f"{run} was brought back from {storage.url}.")
    return run


def opened(home: str, run: str, cluster: str | None, take_over: bool, here: Here, tell: Tell) -> RunStore:
    """The run, to go on with: as it is here, or as its copy is, where it was driven from elsewhere since."""
    store = RunStore.open(home, run, write=True, now=here.now(), take_over=take_over)
    try:
        storage = _visible_storage(store, cluster)
        if storage is not None and is_outdated(store, storage):
            store.close()
            bring_back(storage, run, home)
            tell(f"{run} was driven from elsewhere: it is as its copy in {storage.url} now.")
            store = RunStore.open(home, run, write=True, now=here.now(), take_over=take_over)
        if not take_over:
            if store.is_unfinished():
                refuse_the_living(run, *store.last_driver(), here.now())
            if storage is not None:
                _refuse_a_later_turn(store, storage)
        with suppress(FileNotFoundError):  # Meant for an earlier driver. Now: one meant for this one stays.
            os.unlink(os.path.join(store.folder, STOP_FILE))
    except BaseException:
        store.close()
        raise
    return store


def _storage_of(cluster: str | None) -> Storage | None:
    """What the cluster file names; the cluster itself is not asked for it."""
    found = load(cluster) if cluster is not None else None
    if found is None or found.storage is None:
        return None
    return open_storage(found.storage, folder=found.folder)


def _visible_storage(store: RunStore, cluster: str | None) -> Storage | None:
    """Where copies of the run are; None where there are none, or where that cannot be seen: then what is here is gone
    on with, if there is anything to do."""
    with suppress(FileError, SpecError, OSError):
        storage = _storage_of(cluster or store.document.get("cluster"))
        if storage is not None:
            turns_of(storage, store.run).highest()
        return storage
    return None


def _refuse_a_later_turn(store: RunStore, storage: Storage) -> None:
    """Somebody took a turn that neither the record nor a copy knows of: its first copy may be on the way."""
    turns = turns_of(storage, store.run)
    last = turns.highest()
    driver = Driver.read(turns.driver(last))
    if last > store.turn() and (driver is None or driver.is_alive() is not False):
        raise RunLocked(
            f"Run {store.run!r} was taken over by {driver.words if driver else 'another process'} (turn {last}), which"
            " has left no copy of it so far.",
            hint=f"Wait for it, or end it there. If it is gone for good: shoal resume {store.run} --take-over",
        )
