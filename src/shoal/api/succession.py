"""Runs that an earlier driver left: found here or in a storage, and opened unless that driver may still be there.

A run that came from a storage may not be what this user began: then it is said what runs, before it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from shoal.api import workloads
from shoal.api.clusters.lifecycle import load
from shoal.api.session import STOP_FILE
from shoal.cluster.base import Tell
from shoal.cluster.this_machine import Here
from shoal.errors import FileError, NotFound, RunLocked, SpecError
from shoal.files import Storage, open_storage
from shoal.spec import Workload
from shoal.store import RunStore, resolve_run
from shoal.store.driver import Driver, refuse_the_living
from shoal.store.run_copies import bring_back, is_outdated, turns_of

FILES = ("function.pkl", "rows.jsonl")
"""What of a run's folder says what it starts, beside its record."""


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


def seal(store: RunStore, here: Here) -> None:
    """So that this user knows the run again when it comes back from a storage."""
    from shoal.files import user_key
    from shoal.store import run_copies

    run_copies.seal(store, user_key(here.environment), FILES)


def ensure_trusted(
    store: RunStore, spec: Callable[[], Workload], here: Here, trust: bool, tell: Tell
) -> None:
    """Of a run that was brought back, and that this user did not seal, tell what it runs; then it is sealed.

    `SpecError` for a function that came by value, as its name says nothing of what it does; unless `trust` insists.
    """
    from shoal.files import user_key
    from shoal.store import run_copies

    source = run_copies.source(store.folder)
    if source is None or run_copies.is_sealed(store, user_key(here.environment), FILES):
        return
    if store.document.get("pickle") and not trust:
        raise SpecError(
            f"Run {store.run} was brought back from {source}, and you did not begin it on this machine: its function "
            "came by value, and can do anything as you.",
            hint=f"If you trust everybody who can write there: shoal resume {store.run} --trust",
        )
    runs = workloads.what_runs(spec())
    tell(
        f"You did not begin {store.run} on this machine: who can write to {source} decides what runs: {runs}"
    )
    run_copies.seal(store, user_key(here.environment), FILES)
