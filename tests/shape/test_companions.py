"""Lanes whose workers have a companion on their node: reserved with it, told of it, and waiting for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shape.test_pool import Listed, items
from shoal.engine.local.engine import LocalEngine
from shoal.engine.sim import Behaviour, Fault, SimWorld, Startup, WorkerDies, random_faults
from shoal.errors import CannotPlace, EngineError
from shoal.model import Factory, Item, Need, Node
from shoal.shape.base import Policy
from shoal.shape.pool import Companion, Lane, Pool
from shoal.shape.pool.values import COMPANION
from shoal.store import MemoryJournal
from shoal.testing.contract_base import item, scripted

USER, OWNER = Factory("sim:user"), Factory("sim:owner")
SEEDS = range(int(os.environ.get("SHOAL_SOAK_SEEDS", "150")))
NODES = [Node("a", 3, 1 << 30), Node("b", 3, 1 << 30)]


class World:
    """Simulated nodes, and one pool or several whose workers have companions. Looks at every start of an item."""

    def __init__(
        self,
        nodes: Sequence[Node] = NODES,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        owner: Startup = Startup(0.2),  # noqa: B008
        **options: Any,
    ) -> None:
        self._numbers = count(1)
        self._owner = owner
        self.alone = 0
        """Items that started when the companion they were told of was gone."""
        self.told: list[tuple[int, Mapping[str, Any]]] = []
        """Of each item that started: its number, and the facts of the companion."""
        self.sim = SimWorld(
            nodes, self._behave, seed, faults, startup=self._start, limit_s=1e5, record=True, **options
        )
        self.cluster = self.sim._cluster

    def _start(self, factory: Factory) -> Startup:
        port = {"port": next(self._numbers)}
        return self._owner._replace(facts=port) if factory.target == OWNER.target else Startup(0.01)

    def _behave(self, factory: Factory, item: Item) -> Behaviour:
        facts = item.params[COMPANION]
        alive = {worker.id: worker for worker in self.cluster.workers()}
        self.told.append((item.seq, facts))
        if facts["pid"] not in alive:
            self.alone += 1
            return Behaviour(0.01, "failed", error="its companion is gone")
        assert alive[facts["pid"]].factory.target == OWNER.target
        return Behaviour(item.params["seconds"], crash=bool(item.params.get("crash")))

    def pool(
        self, work: Sequence[Item], companion: Companion, policy: Policy | None = None, name: str = "run"
    ) -> tuple[Pool, MemoryJournal]:
        engine, journal = self.sim.connect(name), MemoryJournal()
        lane = Lane(
            USER, Need(), policy or Policy(retries=30, crashes=30, backoff_s=0.01), companion=companion
        )
        return Pool(engine, journal, [lane], Listed(work)), journal

    def running(self, target: Factory) -> list[str]:
        """The nodes of the workers that run now."""
        return sorted(
            worker.place.host for worker in self.cluster.workers() if worker.factory.target == target.target
        )

    def run(self, work: Sequence[Item], companion: Companion, policy: Policy | None = None) -> MemoryJournal:
        pool, journal = self.pool(work, companion, policy)
        pool.run()
        assert not self.sim.leftovers()
        return journal


ONE = Companion(OWNER, Need())


def test_workers_of_a_node_share_a_companion_and_are_told_its_facts_with_each_item() -> None:
    world = World()
    journal = world.run(items(*[0.1] * 40), ONE)
    assert {record.state for record in journal.records().values()} == {"done"}
    companions = {(facts["address"], facts["port"]) for _, facts in world.told}
    assert sorted(host for host, _ in companions) == ["a", "b"]
    assert len({ran.worker for ran in world.sim.history}) == 4
    assert all(COMPANION not in record.item.params for record in journal.records().values())


def test_a_companion_serves_no_more_than_it_may_and_the_next_worker_brings_another() -> None:
    world = World([Node("a", 8, 1 << 30, gpu=2)])
    world.run(items(*[0.1] * 40), Companion(OWNER, Need(cpu=1, gpu=1), users=2))
    assert len({facts["port"] for _, facts in world.told}) == 2
    assert sorted({tuple(facts["devices"]) for _, facts in world.told}) == [("0",), ("1",)]
    assert len({ran.worker for ran in world.sim.history}) == 4


def test_the_companion_leaves_with_the_last_worker_of_its_node() -> None:
    world = World()
    pool, _ = world.pool([*items(5.0), *[each._replace(seq=each.seq + 1) for each in items(*[0.1] * 8)]], ONE)
    seen = set()
    while pool.step():
        owners, users = world.running(OWNER), world.running(USER)
        seen.add((tuple(sorted(set(users))), tuple(owners)))
    assert (("a", "b"), ("a", "b")) in seen
    one = {users for users, owners in seen if users == owners and len(users) == 1}
    assert one, "one node was let go with its companion while the long item ran on the other"
    assert not world.sim.leftovers()


def test_a_lost_companion_is_started_again_and_its_workers_go_on_with_the_new_one() -> None:
    world = World([Node("a", 2, 1 << 30)], [WorkerDies(1.05, pick=0)])
    journal = world.run(items(*[0.1] * 30), Companion(OWNER, Need()))
    assert {record.state for record in journal.records().values()} == {"done"}
    assert len({facts["port"] for _, facts in world.told}) == 2
    assert len({ran.worker for ran in world.sim.history}) == 1, "the worker stayed"
    [event] = journal.events()
    assert (event.subject, event.what) == ("worker 3 on a", "restarted")
    assert event.why.startswith("worker 1 on a was lost: ")


def test_companions_that_are_lost_again_and_again_end_the_run_with_the_reason() -> None:
    world = World(owner=Startup(0.1, error="no driver for this GPU"))
    with pytest.raises(EngineError, match="no driver for this GPU"):
        world.run(items(1.0), ONE)
    dies = [
        WorkerDies(at + 0.5, pick=min(at, 1)) for at in range(12)
    ]  # The worker itself is older from then on.
    world = World([Node("a", 2, 1 << 30)], dies)
    with pytest.raises(EngineError, match=r"lost 5 times, and no item ended: .* signal 9"):
        world.run(items(100.0), ONE)


def test_nodes_that_cannot_hold_a_worker_beside_its_companion_are_refused_with_both() -> None:
    world = World([Node("a", 1, 1 << 30), Node("b", 1, 1 << 30)])
    with pytest.raises(CannotPlace, match=r"a worker \(1 CPU\) beside the one that it uses \(1 CPU\)"):
        world.pool(items(1.0), ONE)[0].run()


def test_a_worker_is_asked_for_on_every_node_and_takes_the_first_that_is_free() -> None:
    world = World([Node("a", 4, 1 << 30), Node("b", 2, 1 << 30)])
    other = world.sim.connect("other")
    assert other.reserve([Need(node="a")] * 4, None, together=True).places
    pool, journal = world.pool(items(0.1), ONE)
    pool.run()
    assert {record.node for record in journal.records().values()} == {"b"}


class Storm:
    """One seed: nodes, faults, and one or two runs with companions that share them."""

    def __init__(self, seed: int) -> None:
        random = Random(f"companions {seed}")
        nodes = [
            Node(f"n{index}", random.choice((2, 3, 4)), 1 << 30, speed=random.choice((0.2, 1, 3)))
            for index in range(random.randint(1, 3))
        ]
        faults = random_faults(seed, 8.0, nodes, most=10)
        faults += tuple(WorkerDies(random.uniform(0, 8), random.randrange(64)) for _ in range(4))
        self.calm = seed % 5 == 0
        self.world = World(nodes, () if self.calm else faults, seed, detect_s=random.choice((1.0, 5.0)))
        self.runs = []
        for number in range(random.choice((1, 1, 2))):
            companion = Companion(
                OWNER, Need(cpu=random.choice((0, 0.5, 1))), users=random.choice((None, None, 1, 2))
            )
            work = items(*(random.expovariate(1 / 0.3) for _ in range(random.randint(1, 40))))
            self.runs.append((len(work), *self.world.pool(work, companion, name=f"run{number}")))

    def run(self) -> None:
        going = [pool for _, pool, _ in self.runs]
        while going:
            going = [pool for pool in going if pool.step()]
        self.world.sim.settle()
        for length, _, journal in self.runs:
            assert [record.state for record in journal.records().values()] == ["done"] * length
        assert not self.world.sim.leftovers()
        assert not (self.calm and self.world.alone)


def test_whatever_is_lost_all_items_are_done_and_no_companion_is_left() -> None:
    for seed in SEEDS:
        try:
            Storm(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_worker_of_the_embedded_engine_is_told_the_process_of_its_companion(tmp_path: Path) -> None:
    engine = LocalEngine([Node("here", 2, 1 << 30)], str(tmp_path))
    journal = MemoryJournal()
    lane = Lane(
        Factory("shape.test_companions:Asker", folder=str(Path(__file__).parent.parent)),
        Need(),
        companion=Companion(scripted(facts={"port": 7}), Need()),
    )
    Pool(engine, journal, [lane], Listed([item(1), item(2)])).run()
    engine.close()
    told = [record.metrics for record in journal.records().values()]
    assert [metrics["port"] for metrics in told] == [7, 7]
    assert {metrics["owner"] for metrics in told}.isdisjoint({metrics["own"] for metrics in told})


class Asker:
    """A runner that gives back what it was told of its companion, after a look whether that lives."""

    def run(self, work: Any) -> Mapping[str, Any]:
        facts = work.params[COMPANION]
        os.kill(facts["pid"], 0)
        return {"port": facts["port"], "owner": facts["pid"], "own": os.getpid()}
