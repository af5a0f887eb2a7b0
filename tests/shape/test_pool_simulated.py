"""The pool under thousands of made-up disasters. A failing seed is replayed with SHOAL_SEED=N.

SHOAL_SOAK_SEEDS=N runs N of them, SHOAL_SEED_OFFSET=N begins at another one than the first.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from shoal.engine.sim import (
    Behaviour,
    DriverCrashed,
    NodeCutOff,
    Ran,
    SimEngine,
    SimWorld,
    SlowNode,
    WorkerDies,
    random_faults,
)
from shoal.errors import TakenOver
from shoal.model import Factory, Item, Need, Node, Outcome
from shoal.shape.base import Ended, Policy, Progress
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal

FIRST = int(os.environ.get("SHOAL_SEED_OFFSET", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SHOAL_SOAK_SEEDS", "150")))
BATCH = 50
ONCE_FAILED = (155, 487, 4855)
"""Seeds that found something; they are always among those that are run."""
HORIZON_S = 20.0


class Numbers:
    """Items 1 to `count` that the journal does not have."""

    def __init__(self, count: int, journal: MemoryJournal) -> None:
        recorded = journal.max_seq()
        self._left = iter(range(recorded + 1, count + 1))
        self._next = next(self._left, None)

    def take(self, most: int, workers: int) -> Sequence[Item]:
        items = []
        while self._next is not None and len(items) < most:
            items.append(
                Item(self._next, f"t{self._next}", {"kind": self._next % 5}, content=str(self._next % 7))
            )
            self._next = next(self._left, None)
        return items

    def left(self) -> int:
        return 0

    def finished(self) -> bool:
        return self._next is None

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return "enough" if metrics.get("prune") else None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


class Disaster:
    """One seed: a cluster, faults, and one or two runs that share it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        random = Random(f"pool {seed}")
        self.nodes = [
            Node(f"n{index}", random.choice((1, 1, 2, 4)), 1 << 30, speed=random.choice((0.2, 1, 1, 3)))
            for index in range(random.randint(1, 4))
        ]
        self.faults = random_faults(seed, HORIZON_S, self.nodes, driver_crashes=random.choice((0, 1, 3)))
        self.world = SimWorld(
            self.nodes,
            lambda factory, item: behave(factory, item),
            seed,
            self.faults,
            jitter_s=random.choice((0.0, 0.01)),
            detect_s=random.choice((1.0, 5.0)),
            limit_s=1e6,
            record=True,
        )
        scale_s = random.choice((0.001, 0.05, 0.5, 2.0))
        self.runs = [
            SimulatedRun(self, f"run{number}", scale_s, random) for number in range(random.choice((1, 1, 2)))
        ]

    def calm(self, *but: type) -> bool:
        """Whether nothing goes wrong, but for these kinds of fault."""
        return all(isinstance(fault, but) for fault in self.faults) and not any(
            run.crashes or run.disturbed for run in self.runs
        )

    def run(self) -> None:
        going = list(self.runs)
        while going:
            going = [run for run in going if run.step()]
        self.world.settle()
        for run in self.runs:
            run.check()
        leftovers = self.world.leftovers()
        assert not leftovers, f"left over: {leftovers}"


def behave(factory: Factory, item: Item) -> Behaviour:
    """The same item and attempt always do the same; the metrics tell which attempt a result is from."""
    random = Random(f"{factory.target} {item.seq} {item.attempt}")
    seconds = random.lognormvariate(0, 1) * factory.arguments["scale_s"]
    metrics = {"seq": item.seq, "attempt": item.attempt}
    if random.random() >= factory.arguments["trouble"]:
        return Behaviour(seconds, metrics=metrics)
    kind = random.choice(("fail", "crash", "hang", "stubborn", "prune"))
    if kind == "fail":
        return Behaviour(seconds, "failed", error="no")
    if kind == "crash":
        return Behaviour(seconds, crash=True)
    if kind == "prune":
        return Behaviour(seconds, metrics=metrics, reports=((0.3, {"prune": 1}, 1),))
    return Behaviour(seconds, hang=True, ignores_cancel=kind == "stubborn")


class Session:
    """One driver of a run: its engine, its journal and its pool. Watches what it hands out."""

    def __init__(self, run: SimulatedRun, engine: SimEngine, journal: MemoryJournal) -> None:
        self.run = run
        self.engine = engine
        self.journal = journal
        self.replaced = False
        """Whether a later driver has the run."""
        self._submit = engine.submit
        engine.submit = self.submit  # type: ignore[method-assign]
        self.pool = Pool(
            engine,
            journal,
            [Lane(run.factory, Need(cpu=1), run.policy)] * run.lanes,
            Numbers(run.count, journal),
            lane_of=lambda item: item.seq * 7 // 3 % run.lanes,
            resumed=iter(journal.waiting_items()),
            watcher=self,
        )

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        assert not self.replaced, "a driver that was replaced handed something out"
        for item in items:
            assert item.seq in self.journal.records(), (
                f"item {item.seq} was handed out before it was recorded"
            )
        self._submit(worker, items)

    def durable(self, ended: Sequence[Ended]) -> None:
        assert not self.replaced, "a driver that was replaced recorded something"
        records = self.journal.records()
        for entry in ended:
            seq = entry.item.seq
            assert records[seq].state == entry.outcome.state, "told before it was durable"
            if entry.outcome.state != "stopped":
                assert seq not in self.run.told, f"item {seq} was told twice to be durable"
                self.run.told[seq] = (self.run.world.now(), number_of(self.engine.driver.key))

    def moment(self, progress: Progress) -> None:
        self.run.most_running = max(self.run.most_running, len(progress.running))

    def wake(self) -> bool:
        """One turn of its loop, after another driver took over; False when it has found that out, or has died."""
        try:
            if self.pool.step():
                return True
            self.journal.commit()  # As at the end of a run: there is nothing to do, but it is no longer its own.
        except DriverCrashed:
            return False
        except TakenOver:
            self.engine.close()
            return False
        raise AssertionError("a driver that was replaced came to a good end")


class SimulatedRun:
    """One run with its drivers, one after the other, and what has to hold whatever happens."""

    def __init__(self, disaster: Disaster, name: str, scale_s: float, random: Random) -> None:
        self.disaster = disaster
        self.world = disaster.world
        self.name = name
        self.count = random.randint(1, 60)
        self.policy = Policy(
            retries=random.randint(0, 3),
            timeout_s=scale_s * 60 + 3,
            concurrent=random.choice((None, None, 1, 2, 5)),
            grace_s=random.choice((0.5, 5.0)),
            # By chances of their own: what the others give for a seed stays as it was.
            timeouts_count_as_crashes=Random(f"timeouts {disaster.seed} {name}").random() < 0.5,
        )
        trouble = random.choice((0.0, 0.1, 0.4))
        self.factory = Factory(f"sim:{name}", {"scale_s": scale_s, "trouble": trouble})
        self.crashes = [random.randint(1, 300) for _ in range(random.choice((0, 0, 1)))]
        """After how many calls of the engine a driver dies."""
        drowsy = Random(f"sleeps {disaster.seed} {name}")
        self.sleeps = [(turn, some_turn(drowsy)) for turn in some_turns(drowsy)]
        """After how many turns of the loop a driver falls asleep and is replaced, and for how many it sleeps."""
        self.stops = some_turns(Random(f"stops {disaster.seed} {name}"))
        """After how many turns of the loop the run is stopped, each time."""
        self.disturbed = bool(self.sleeps or self.stops)
        self.lanes = Random(f"lanes {disaster.seed} {name}").choice((1, 1, 2, 3))
        self.journal = MemoryJournal()
        self.told: dict[int, tuple[float, int]] = {}
        """When the end of each item was told to be durable, and by which driver."""
        self.most_running = 0
        self.sessions = 0
        self.turns = 0
        self.crashed: SimEngine | None = None
        """The engine of the last driver, where that died."""
        self.session: Session | None = None
        self.sleepers: list[tuple[int, Session]] = []
        """Drivers that were replaced, and the turn at which each wakes up."""
        self.over = False

    def step(self) -> bool:
        """One turn of the loop of each driver that is awake; a new one where the last one died or was stopped."""
        self.turns += 1
        self.sleepers = [
            (until, sleeper) for until, sleeper in self.sleepers if self.turns < until or sleeper.wake()
        ]
        if not self.over:
            self.over = self.drive()
        return bool(self.sleepers) or not self.over

    def drive(self) -> bool:
        """Whether the run is over after one turn of its present driver."""
        try:
            session = self.session = self.session or self.begin()
            if session.pool.step():
                self.disturb(session)
                return False
        except DriverCrashed:
            assert self.session is not None
            self.crashed, self.session = self.session.engine, None
            self.journal.crash()
            return False
        session.engine.close()
        self.session = None
        assert self.journal.counts()["running"] == 0, "a driver ended and left something running"
        self.journal = MemoryJournal(inherit=self.journal)
        return not session.pool.stopping

    def disturb(self, session: Session) -> None:
        if self.stops and self.turns >= self.stops[0]:
            self.stops.pop(0)
            session.pool.stop()
        if self.sleeps and self.turns >= self.sleeps[0][0]:
            self.sleepers.append((self.turns + self.sleeps.pop(0)[1], session))
            session.replaced = True
            self.session = None
            self.journal = MemoryJournal(inherit=self.journal)

    def begin(self) -> Session:
        self.sessions += 1
        assert self.sessions < 30, "the run does not come to an end"
        calls = self.crashes[self.sessions - 1] if self.sessions <= len(self.crashes) else None
        engine = self.world.connect(self.name, inherit=self.crashed, crash_after_calls=calls)
        self.crashed = None
        return Session(self, engine, self.journal)

    # What has to hold.

    def check(self) -> None:
        assert self.journal.violations == []
        records = self.journal.records()
        assert sorted(records) == list(range(1, self.count + 1)), "items were lost or made up"
        for seq, record in records.items():
            assert record.state in ("done", "failed", "pruned"), f"item {seq} is {record.state}"
            assert record.item.used <= self.policy.retries + 1, f"item {seq} used {record.item.used} attempts"
            if record.state == "failed":
                assert record.item.used == self.policy.retries + 1, f"item {seq} failed with attempts left"
            if record.state == "done":
                assert record.metrics["attempt"] == record.item.attempt, "a fenced result was accepted"
                assert record.metrics["seq"] == seq
        self.check_done_stays_done()
        self.check_attempts()
        self.check_concurrency()

    def history(self) -> list[Ran]:
        return [ran for ran in self.world.history if ran.driver.startswith(self.name)]

    def check_done_stays_done(self) -> None:
        """No newer attempt begins after an item's end was durable.

        But for workers of a driver that is dead, who have not noticed yet: nobody listens to them any more.
        """
        records = self.journal.records()
        for ran in self.history():
            at, driver = self.told[ran.seq]
            stale = ran.attempt <= records[ran.seq].item.attempt or number_of(ran.driver) < driver
            assert stale or ran.started <= at

    def check_attempts(self) -> None:
        """Where every failure can be seen from outside, exactly those count that should.

        Not where workers are ended for a timeout: what they had begun since is lost, and does not count.
        """
        if not self.disaster.calm(WorkerDies, SlowNode) or self.policy.timeouts_count_as_crashes:
            return
        failures = Counter(ran.seq for ran in self.history() if ran.state in ("failed", "lost"))
        for seq, record in self.journal.records().items():
            expected = failures[seq] + (record.state != "failed")
            assert record.item.used == expected, (
                f"item {seq} used {record.item.used} attempts, not {expected}"
            )

    def check_concurrency(self) -> None:
        """At no time does one driver really have more of its items running than allowed.

        A node that is cut off goes on with what it has, and nobody can know: there, the pool's belief counts.
        """
        if self.policy.concurrent is None:
            return
        most = self.policy.concurrent * self.lanes
        assert self.most_running <= most
        if any(isinstance(fault, NodeCutOff) for fault in self.disaster.faults):
            return
        changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for ran in self.history():
            changes[ran.driver] += [(ran.started, 1), (ran.ended, -1)]
        for entries in changes.values():
            running = 0
            for _, change in sorted(entries):
                running += change
                assert running <= most


def some_turns(random: Random) -> list[int]:
    """None, one or two turns of the loop."""
    return sorted(some_turn(random) for _ in range(random.choice((0, 0, 1, 2))))


def some_turn(random: Random) -> int:
    """Early ones as often as late ones."""
    return int(10 ** random.uniform(0, 2.7))


def number_of(driver: str) -> int:
    """Drivers are numbered in the order in which they came."""
    return int(driver.rpartition("#")[2])


def seeds() -> Iterator[range]:
    chosen = os.environ.get("SHOAL_SEED")
    if chosen is not None:
        yield range(int(chosen), int(chosen) + 1)
        return
    yield from (range(seed, seed + 1) for seed in ONCE_FAILED if seed not in SEEDS)
    for first in SEEDS[::BATCH]:
        yield range(first, min(first + BATCH, SEEDS.stop))


@pytest.mark.parametrize("batch", list(seeds()), ids=lambda batch: f"{batch[0]}-{batch[-1]}")
def test_whatever_breaks_every_item_ends_once_and_nothing_is_left_over(batch: range) -> None:
    for seed in batch:
        disaster = Disaster(seed)
        try:
            disaster.run()
        except BaseException as error:
            error.add_note(f"replay with SHOAL_SEED={seed}")
            raise
