"""Pools beside reservations that stand together: all end, in turn, and nothing idles but what is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from shoal.engine.claims import TURN_S
from shoal.engine.sim import Behaviour, SimEngine, SimWorld, random_faults
from shoal.errors import CannotPlace
from shoal.model import (
    Factory,
    Granted,
    Item,
    ItemEnded,
    Need,
    Node,
    NodeJoined,
    Outcome,
    Refused,
    WorkerLost,
)
from shoal.planner.durations import Durations
from shoal.shape.base import Policy
from shoal.shape.pool import Companion, Lane, Pool
from shoal.store import MemoryJournal
from shoal.testing.events import of

FIRST = int(os.environ.get("SHOAL_SEED_OFFSET", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SHOAL_SOAK_SEEDS", "150")))
BATCH = 50
FACTORY = Factory("sim:anything")


def behave(factory: Factory, item: Item) -> Behaviour:
    return Behaviour(item.params["seconds"])


class Numbers:
    """So many items of a pool, of lengths that the seed gives."""

    def __init__(self, count: int, scale_s: float, random: Random) -> None:
        lengths = [random.expovariate(1 / scale_s) for _ in range(count)]
        self.longest_s = max(lengths)
        self._items = [Item(seq, f"i{seq}", {"seconds": s}, content="x") for seq, s in enumerate(lengths, 1)]

    def take(self, most: int, workers: int) -> Sequence[Item]:
        taken, self._items = self._items[:most], self._items[most:]
        return taken

    def left(self) -> int:
        return 0

    def finished(self) -> bool:
        return not self._items

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


class Foreseen(Durations):
    """As if every item had been run before."""

    def expect(self, item: Item) -> float | None:
        return float(item.params["seconds"])


class Unforeseen(Durations):
    """Nobody can say how long an item will take, so nothing is lent for it."""

    def expect(self, item: Item) -> float | None:
        return None


class Gang:
    """Asks for places that stand together, has all of them work for a while, and goes."""

    def __init__(self, engine: SimEngine, random: Random, most: int) -> None:
        self.engine = engine
        self.at = random.uniform(0, 5)
        self.needs = [Need()] * random.randint(1, most)
        self.seconds = random.expovariate(1 / 1.5)
        self.says_how_long = random.random() < 0.5
        self.reservation: int | None = None
        self.asked: float | None = None
        self.granted: float | None = None
        self.out: set[int] = set()
        self.over = False

    def step(self) -> bool:
        events = self.engine.wait(0)
        new = self.asked is None and self.engine.now() >= self.at
        again = self.asked is not None and self.reservation is None and of(NodeJoined, events)
        if new or again or of(Refused, events):
            self._ask()
        for event in of(Granted, events):
            self._start(event.places)
        for ended in of(ItemEnded, events):
            self.engine.end(ended.worker)
        self.out -= {event.worker for event in of(WorkerLost, events)}
        if self.granted is not None and not self.out and not self.over:
            self.over = True
            self.engine.close()
        return not self.over

    def _ask(self) -> None:
        self.asked = self.engine.now()
        lasts_s = self.seconds + 1 if self.says_how_long else None
        try:
            reservation = self.engine.reserve(self.needs, None, together=True, lasts_s=lasts_s)
        except CannotPlace:
            self.reservation = None  # Until nodes come back.
            return
        self.reservation = reservation.id
        if reservation.places:
            self._start(reservation.places)

    def _start(self, places: Sequence[Any]) -> None:
        self.granted = self.engine.now()
        for seq, place in enumerate(places, 1):
            worker = self.engine.spawn(FACTORY, place)
            self.engine.submit(worker, [Item(seq, f"rank{seq}", {"seconds": self.seconds})])
            self.out.add(worker)


class Neighbours:
    """One seed: a cluster, pools and gangs; on every third seed, faults."""

    def __init__(self, seed: int, durations: type[Durations] = Durations) -> None:
        random = Random(f"line {seed}")
        nodes = [
            Node(f"n{index}", random.choice((1, 2, 4)), 1 << 30) for index in range(random.randint(1, 4))
        ]
        self.cpu = sum(node.cpu for node in nodes)
        faults = random_faults(seed, 8.0, nodes, most=4) if seed % 3 == 0 else ()
        faults = tuple(fault for fault in faults if getattr(fault, "back_after", 0.0) is not None)
        self.calm = not faults
        self.world = SimWorld(nodes, behave, seed, faults, limit_s=5000, record=True)
        self.arbiter = self.world._cluster.arbiter
        scale_s = random.choice((0.05, 0.2, 0.8))
        self.longest_s = 0.0
        self.journals: list[tuple[int, MemoryJournal]] = []
        self.pools: list[tuple[SimEngine, Pool]] = []
        for number in range(random.randint(1, 2)):
            engine, journal, count = (
                self.world.connect(f"pool{number}"),
                MemoryJournal(),
                random.randint(1, 40),
            )
            source = Numbers(count, scale_s, random)
            self.longest_s = max(self.longest_s, source.longest_s)
            self.journals.append((count, journal))
            self.pools.append(
                (
                    engine,
                    Pool(
                        engine,
                        journal,
                        [Lane(FACTORY, Need(), Policy(retries=9))],
                        source,
                        durations=durations(),
                    ),
                )
            )
        self.gangs = [
            Gang(self.world.connect(f"gang{number}"), random, int(self.cpu))
            for number in range(random.randint(1, 4))
        ]
        self.kept_cpu_s = self.waited_cpu_s = 0.0

    def run(self) -> None:
        pools, gangs = list(self.pools), list(self.gangs)
        while pools or gangs:
            before = self.world.now()
            if not pools:
                self.world.pass_time(0.05)
            for engine, pool in list(pools):
                if not pool.step():
                    engine.close()
                    pools.remove((engine, pool))
                self.look()
            gangs = [gang for gang in gangs if gang.step()]
            self.look()
            self.count(self.world.now() - before)
        self.world.settle()
        self.check()

    def look(self) -> None:
        """Who waits for one place finds none, but for what is kept for the first in line, and no more than it needs."""
        line = self.arbiter.table.line()
        kept = len(line[0][2].needs) if line else 0
        assert self.idle() <= kept, f"{self.idle():g} CPUs idle, and {kept} may be kept"

    def idle(self) -> float:
        """What nobody has, though somebody waits for one place."""
        alone = any(not ask.together for _, ask in self.arbiter.pending.values())
        return sum(room.cpu for room in self.arbiter.table.rooms._rooms.values()) if alone else 0.0

    def count(self, seconds: float) -> None:
        self.kept_cpu_s += self.idle() * seconds
        if self.arbiter.table.line():
            self.waited_cpu_s += self.cpu * seconds

    def check(self) -> None:
        assert not self.world.leftovers()
        for count, journal in self.journals:
            assert [record.state for record in journal.records().values()] == ["done"] * count
        assert all(gang.over for gang in self.gangs)
        if self.calm:
            self.check_turns()

    def check_turns(self) -> None:
        """In the order in which they asked; each when those before it had ended, and what ran in a pool had, too."""
        in_line = sorted(self.gangs, key=lambda gang: gang.asked or 0.0)
        free_at = 0.0
        for before, gang in zip([None, *in_line], in_line, strict=False):
            assert gang.asked is not None
            assert gang.granted is not None
            assert before is None or gang.granted >= (before.granted or 0.0), "one that came first was passed"
            latest = max(gang.asked, free_at) + self.longest_s + 1.0
            assert gang.granted <= latest, (
                f"it waited until {gang.granted:g}, and might have begun at {latest:g}"
            )
            free_at = max(free_at, gang.granted + gang.seconds + 0.5)


def seeds() -> Iterator[range]:
    if (chosen := os.environ.get("SHOAL_SEED")) is not None:
        yield range(int(chosen), int(chosen) + 1)
        return
    for first in SEEDS[::BATCH]:
        yield range(first, min(first + BATCH, SEEDS.stop))


@pytest.mark.parametrize("batch", list(seeds()), ids=lambda batch: f"{batch[0]}-{batch[-1]}")
def test_pools_and_gangs_all_end_in_turn_and_nothing_idles_but_what_is_kept(batch: range) -> None:
    kept = waited = 0.0
    for seed in batch:
        neighbours = Neighbours(seed)
        try:
            neighbours.run()
        except BaseException as error:
            error.add_note(f"replay with SHOAL_SEED={seed}")
            raise
        kept += neighbours.kept_cpu_s
        waited += neighbours.waited_cpu_s
    print(
        f"kept for the first in line: {kept / max(waited, 1e-9):.1%} of all CPU while somebody stood in line"
    )


def test_less_of_what_is_kept_stands_idle_where_it_can_be_lent_to_short_items() -> None:
    kept = {}
    for durations in (Unforeseen, Durations, Foreseen):
        each = [Neighbours(seed, durations) for seed in range(300, 320)]
        for neighbours in each:
            neighbours.run()
        kept[durations] = sum(neighbours.kept_cpu_s for neighbours in each)
    nothing, learned, known = kept.values()
    print(
        f"idle: {nothing:.0f} CPU seconds; {learned:.0f} with what pools learn; {known:.0f} where all is known"
    )
    assert known < 0.8 * nothing


class Endless:
    """Gangs that all need every CPU: one works, and two stand in line."""

    def __init__(self, world: SimWorld, cpus: int) -> None:
        self.world = world
        self.cpus = cpus
        self.waits: list[float] = []
        self._going: list[Gang] = []

    def step(self) -> None:
        while len(self._going) < 3:
            gang = Gang(self.world.connect(), Random(0), 1)
            gang.at, gang.needs, gang.seconds = 0.0, [Need()] * self.cpus, 5.0
            self._going.append(gang)
        for gang in self._going:
            gang.step()
            if gang.over:
                self.waits.append((gang.granted or 0.0) - (gang.asked or 0.0))
        self._going = [gang for gang in self._going if not gang.over]


@pytest.mark.parametrize("companion", [None, Companion(FACTORY, Need())], ids=["alone", "with a companion"])
def test_gangs_without_end_leave_each_pool_a_turn_now_and_then(companion: Companion | None) -> None:
    world = SimWorld([Node("a", 4, 1 << 30)], behave, limit_s=5000)
    gangs, pools = Endless(world, 4), []
    for number in range(2):
        engine, journal = world.connect(f"pool{number}"), MemoryJournal()
        work = Numbers(4, 0.5, Random(number))
        pools.append((Pool(engine, journal, [Lane(FACTORY, Need(), companion=companion)], work), journal))
    going = list(pools)
    while going:
        gangs.step()
        going = [(pool, journal) for pool, journal in going if pool.step()]
    for _, journal in pools:
        assert [record.state for record in journal.records().values()] == ["done"] * 4
    assert world.now() < 4 * (TURN_S + 20), "one item for each turn"
    assert len(gangs.waits) > 0.8 * world.now() / 5.5, "hardly less is left for the gangs"
    assert max(gangs.waits) < 20, "and none waits for more than the two before it, and a turn of each pool"
