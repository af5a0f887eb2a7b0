"""A probe: the first items of a workload, done for real, so that its plan knows how long they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.api import workloads
from shoal.api.machines import machines
from shoal.api.runs import new_session
from shoal.api.summary import Summary
from shoal.api.workloads import Prepared
from shoal.cluster.here import Here
from shoal.engine import room
from shoal.shape.base import Ended, Progress
from shoal.store import find_home
from shoal.store import remove as remove_run


class Probed(NamedTuple):
    """What a probe did, and whether a resume can go on with it."""

    summary: Summary
    goes_on: bool


def probe(target: str, *, cluster: str | None = None, sets: Sequence[str] = ()) -> Probed:
    """Run the first items for real, then stop: plans know more.

    A resume of this run throws nothing away, unless the kind replaces what earlier runs wrote. Then all of it is done
    elsewhere, and goes again; what is left is the record of a run that failed, for people to see why.
    """
    here = Here()
    prepared = workloads.from_file(target, sets)
    apart = prepared.job.apart(f"probe-{here.token(4)}")
    if not apart:
        return Probed(_measure(prepared, cluster, here), goes_on=True)
    elsewhere = workloads.from_file(target, [*sets, *apart])
    try:
        summary = _measure(elsewhere, cluster, here)
    finally:
        elsewhere.job.discard()
    if summary.state != "failed":
        remove_run(find_home(here.folder, here.environment), summary.run, now=here.now())
    return Probed(summary, goes_on=False)


def _measure(prepared: Prepared, cluster: str | None, here: Here) -> Summary:
    where = machines(cluster)
    prepared.job.fit(where.nodes, here=where.here)
    enough = _Enough(max(3, 2 * sum(room.slots(prepared.job.asks(), node) for node in where.nodes)))
    session = new_session(prepared, where, here, enough)
    enough.stop = session.stop
    return session.drive()


class _Enough:
    """Stops a session when so many items have ended well."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.stop: Callable[[], None] = lambda: None

    def durable(self, ended: Sequence[Ended]) -> None:
        self.left -= len(ended)
        if self.left <= 0:
            self.stop()

    def moment(self, progress: Progress) -> None:
        return None
