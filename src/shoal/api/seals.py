"""Whether a run that came from a storage is what this user began; else it is said what runs, before it does."""

from __future__ import annotations

from collections.abc import Callable

from shoal.api import workloads
from shoal.api.machines import Machines
from shoal.cluster.base import Tell
from shoal.cluster.here import Here
from shoal.errors import SpecError
from shoal.spec import Workload
from shoal.store import RunStore

FILES = ("function.pkl", "rows.jsonl")
"""What of a run's folder says what it starts, beside its record."""


def seal(store: RunStore, where: Machines, here: Here) -> None:
    """So that this user knows the run again when it comes back from the storage of these machines."""
    if where.storage() is not None:
        from shoal.files import user_key
        from shoal.store import origin

        origin.seal(store, user_key(here.environment), FILES)


def ensure_trusted(
    store: RunStore, spec: Callable[[], Workload], here: Here, trust: bool, tell: Tell
) -> None:
    """Of a run that was brought back, and that this user did not seal, tell what it runs; then it is sealed.

    `SpecError` for a function that came by value, as its name says nothing of what it does; unless `trust` insists.
    """
    from shoal.files import user_key
    from shoal.store import origin

    source = origin.source(store.folder)
    if source is None or origin.is_sealed(store, user_key(here.environment), FILES):
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
    origin.seal(store, user_key(here.environment), FILES)
