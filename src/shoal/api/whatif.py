"""What would be: how long a workload would take on other numbers of nodes.

The same shape that runs the workload runs here on the simulation engine, with durations that were measured before.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.api import workloads
from shoal.api.machines import machines
from shoal.cluster.here import Here
from shoal.engine.sim import Behaviour, SimWorld, Startup
from shoal.errors import SpecError
from shoal.model import Factory, Item, Node, Prediction
from shoal.model.profile import Profile
from shoal.planner.durations import Durations
from shoal.planner.prediction import interval
from shoal.shape.base import drive
from shoal.store import MemoryJournal, home_for_new_runs
from shoal.store.learned import recall_learned
from shoal.store.profiles import recall
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
