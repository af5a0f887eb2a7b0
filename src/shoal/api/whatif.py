"""How long a workload would take on other numbers of nodes, and a probe, which does its first items for real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.api import workloads
from shoal.api.machines import machines
from shoal.api.runs import new_session
from shoal.api.workloads import Prepared
from shoal.cluster.this_machine import Here
from shoal.engine import room
from shoal.engine.sim import Behaviour, SimWorld, Startup
from shoal.errors import SpecError
from shoal.model import Factory, Item, Node, Prediction
from shoal.model.plan import Profile
from shoal.model.record import Summary
from shoal.planner.durations import Durations, interval
from shoal.shape.base import Ended, Progress, drive
from shoal.store import MemoryJournal, find_home, home_for_new_runs
from shoal.store import remove as remove_run
from shoal.store.profiles import recall, recall_learned
from shoal.work.job import Job, Setting

MOST_ITEMS = 20_000
"""Beyond this a simulation takes too long to wait for."""


def whatif(
    target: str, counts: Sequence[int], *, cluster: str | None = None, sets: Sequence[str] = ()
) -> list[tuple[int, Prediction]]:
    """Seconds on so many nodes like the first one there is now. Needs durations from an earlier run."""
    job = workloads.from_file(target, sets).job
    where, here = machines(cluster), Here()
    node, home = where.nodes[0], home_for_new_runs(here.folder, here.environment)
    job.fit([node], here=where.here)
    profile = recall(home, job.fingerprint)
    if profile is None or not profile.measured:
        raise SpecError(
            "Nothing is known yet of how long the items take.", hint="Run it once, or add --probe."
        )
    total = job.total()
    if total is None:
        learned = recall_learned(home, job.fingerprint)
        return [(count, job.predict(node, count, learned)) for count in counts]
    if total > MOST_ITEMS:
        raise SpecError(
            f"{total} items are too many to simulate.", hint=f"Up to {MOST_ITEMS} can be asked for."
        )
    return [(count, _simulate(job, profile, _like(node, count))) for count in counts]


def _like(node: Node, count: int) -> list[Node]:
    return [node._replace(host=f"node{n}") for n in range(count)]


def _simulate(job: Job, profile: Profile, nodes: Sequence[Node]) -> Prediction:
    def model(factory: Factory, item: Item) -> Behaviour:
        return Behaviour(profile.seconds.get(item.content, profile.mean_s))

    known = Durations()
    known.tell_all((content, {}, seconds) for content, seconds in profile.seconds.items())
    world = SimWorld(nodes, model, startup=lambda factory: Startup(profile.startup_s or 0.1))
    engine = world.connect()
    drive(job.shape(Setting(engine, MemoryJournal(), durations=known)))
    engine.close()
    return interval(world.now(), profile.noise_s, len(profile.seconds), sum(node.cpu for node in nodes))


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
    """Stops a session when `count` items have ended well."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.stop: Callable[[], None] = lambda: None

    def durable(self, ended: Sequence[Ended]) -> None:
        self.left -= len(ended)
        if self.left <= 0:
            self.stop()

    def moment(self, progress: Progress) -> None:
        return None
