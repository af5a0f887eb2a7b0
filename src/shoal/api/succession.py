"""Runs that an earlier driver left: found here or in a storage, and opened unless that driver may still be alive."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.api.machines import machines
from shoal.api.session import STOP_FILE
from shoal.cluster.base import Tell
from shoal.cluster.here import Here
from shoal.errors import FileError, NotFound, SpecError
from shoal.store import RunStore, resolve_run
from shoal.store.driver import refuse_the_living

if TYPE_CHECKING:
    from shoal.files import Storage


def found(home: str, run: str, cluster: str | None, tell: Tell) -> str:
    """The run that is meant; one that is not here is brought back from the storage of the cluster."""
    try:
        return resolve_run(home, run)
    except NotFound:
        storage = machines(cluster, tell).storage() if cluster is not None else None
        if storage is None:
            raise
    from shoal.store.copying import bring_back

    bring_back(storage, run, home)
    tell(f"{run} was brought back from {storage.url}.")
    return run


def opened(home: str, run: str, cluster: str | None, take_over: bool, here: Here, tell: Tell) -> RunStore:
    """The run, to go on with: as it is here, or as its copy is, where it was driven from elsewhere since."""
    store = RunStore.open(home, run, write=True, now=here.now(), take_over=take_over)
    try:
        storage = _newer_copy(store, cluster, tell)
        if storage is not None:
            from shoal.store.copying import bring_back

            store.close()
            bring_back(storage, run, home)
            tell(f"{run} was driven from elsewhere since: it was brought back from {storage.url}.")
            store = RunStore.open(home, run, write=True, now=here.now(), take_over=take_over)
        if not take_over and store.is_unfinished():
            refuse_the_living(run, *store.last_driver(), here.now())
        with suppress(FileNotFoundError):  # Meant for an earlier driver. Now: one meant for this one stays.
            os.unlink(os.path.join(store.folder, STOP_FILE))
    except BaseException:
        store.close()
        raise
    return store


def _newer_copy(store: RunStore, cluster: str | None, tell: Tell) -> Storage | None:
    """Where a later driver left a copy of the run; None where none did, or where that cannot be seen: then what is here
    is gone on with, if there is anything to do."""
    from shoal.store.copying import copied_turn

    with suppress(FileError, SpecError, OSError):
        storage = machines(cluster or store.document.get("cluster"), tell).storage()
        if storage is not None and copied_turn(storage, store.run) > store.turn():
            return storage
    return None
