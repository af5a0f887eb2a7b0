"""A pool whose kind tunes it while it runs: which workers get items, what travels with them, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shape.test_pool import Listed, items
from shoal.engine.sim import Behaviour, SimWorld, Startup, WorkerDies
from shoal.model import Factory, Item, Need, Node, Place
from shoal.shape.pool import Policy, Pool
from shoal.shape.pool.crew import Crew, Flight, Member
from shoal.shape.pool.picking import at_hand
from shoal.store import MemoryJournal


class Guide:
    """Gives items to so many workers of a node, so many at once; notes what it sent and what it lost."""

    def __init__(self, active: int, ahead: int = 1, room: int | None = None) -> None:
        self._active, self._ahead = active, ahead
        self._room = room
        """So many workers can be active; None means any number."""
        self.sent_to: dict[int, int] = {}
        self.causes: list[str] = []
        self.most_at_once = 0
        self._out: dict[int, set[int]] = {}

    def active(self, host: str, workers: int) -> int:
        return min(workers, self._active)

    def sent(self, item: Item, worker: int, host: str) -> Item:
        self.sent_to[item.seq] = worker
        mine = self._out.setdefault(worker, set())
        mine.add(item.seq)
        self.most_at_once = max(self.most_at_once, len(mine))
        return item._replace(params={**item.params, "shoal:advice": worker})

    def lost(self, worker: int, cause: str) -> None:
        self.causes.append(cause)
        self._active -= cause == "room"

    def is_crowded(self) -> bool:
        return self._room is not None and self._active > self._room

    def ahead(self) -> int:
        return self._ahead

    def remaining_s(self) -> float | None:
        return 42.0

    def left_to_do(self) -> int | None:
        return 7

    def done(self, seq: int) -> None:
        for mine in self._out.values():
            mine.discard(seq)


class Source(Listed):
    """Tells the guide of each end; gives items as they are asked for, as inference does."""

    def __init__(self, work: Sequence[Item], guide: Guide) -> None:
        super().__init__(work)
        self._guide = guide

    def take(self, most: int, workers: int) -> Sequence[Item]:
        given, self._items = self._items[:most], self._items[most:]
        return given

    def ended(self, item: Item, outcome: Any) -> None:
        self._guide.done(item.seq)


def run(work: Sequence[Item], guide: Guide, cpu: int = 4, faults: Sequence[Any] = ()) -> Any:
    def model(factory: Factory, item: Item) -> Behaviour:
        assert item.params["shoal:advice"] == guide.sent_to[item.seq]
        return Behaviour(item.params["seconds"], leaves=guide.is_crowded())

    world = SimWorld(
        [Node("a", cpu, 1 << 30)],
        model,
        startup=lambda _: Startup(0.01),
        limit_s=1e5,
        record=True,
        faults=faults,
    )
    journal = MemoryJournal()
    engine = world.connect()
    source = Source(work, guide)
    pool = Pool(engine, journal, Factory("sim:x"), Need(), source, Policy(crashes=3), guide=guide)
    pool.run()
    assert (pool.progress().remaining_s, pool.progress().left) == (42.0, 7)
    engine.close()
    assert journal.violations == []
    return journal.records(), world.now()


def test_only_as_many_workers_as_the_guide_says_get_items() -> None:
    guide = Guide(active=2)
    records, _ = run(items(*[0.5] * 20), guide)
    assert {record.state for record in records.values()} == {"done"}
    assert len(set(guide.sent_to.values())) == 2


def test_what_travels_with_an_item_is_not_recorded() -> None:
    records, _ = run(items(0.1, 0.1), Guide(active=2))
    assert all("shoal:advice" not in record.item.params for record in records.values())


def test_a_worker_has_the_next_item_before_the_last_has_ended_where_the_guide_wants_it() -> None:
    guide = Guide(active=2, ahead=2)
    records, _ = run(items(*[0.5] * 20), guide)
    assert guide.most_at_once == 2
    assert len(records) == 20
    alone = Guide(active=2)
    run(items(*[0.5] * 20), alone)
    assert alone.most_at_once == 1


def test_no_worker_keeps_an_item_waiting_that_an_idle_one_could_do() -> None:
    guide = Guide(active=2, ahead=2)
    _, seconds = run(items(*[1.0] * 5, 8.0), guide, cpu=2)
    assert seconds < 12.0, "8 s and a share of 5 s on two workers, not one after the other"


def test_the_guide_hears_why_a_worker_is_gone_and_the_item_is_tried_again() -> None:
    guide = Guide(active=2)
    records, _ = run(items(*[1.0] * 6), guide, faults=[WorkerDies(at=1.5)])
    assert {record.state for record in records.values()} == {"done"}
    assert "crash" in guide.causes


def test_workers_without_room_go_until_the_others_have_enough_and_nobody_is_blamed() -> None:
    guide = Guide(active=4, room=2)
    records, _ = run(items(*[1.0] * 8), guide)
    assert {(record.state, record.item.used) for record in records.values()} == {("done", 1)}
    assert guide.causes.count("room") >= 2


def test_a_few_workers_of_a_node_are_spread_over_its_gpus() -> None:
    engine = SimWorld([Node("a", 6, 1 << 30, gpu=2)], lambda *_: Behaviour(1.0)).connect()
    crew = Crew(engine, Factory("sim:x"), Need(gpu=0.33), Policy())
    for number in range(6):  # Places are given on one GPU until it is full.
        device = str(number // 3)
        member = Member(number, Place(number, "a", Need(gpu=0.33), (device,)), 0.0)
        member.ready_at = 0.0
        crew.members[number] = member
    assert [member.number for member in at_hand(crew, Guide(active=2))] == [0, 3]
    crew.members[4].items = 1  # It has loaded what the others would have to load.
    assert [member.number for member in at_hand(crew, Guide(active=2))] == [4, 0]
    assert len(at_hand(crew, Guide(active=6))) == 6
    engine.close()


def test_who_is_at_work_counts_until_it_is_gone() -> None:
    """Otherwise another one would load its model beside it."""
    engine = SimWorld([Node("a", 2, 1 << 30)], lambda *_: Behaviour(1.0)).connect()
    crew = Crew(engine, Factory("sim:x"), Need(), Policy())
    busy, idle = (Member(number, Place(number, "a", Need()), 0.0) for number in (1, 2))
    for member in (busy, idle):
        member.ready_at = 0.0
        crew.members[member.number] = member
    busy.flights[1] = Flight(items(1.0)[0], busy)
    guide = Guide(active=1)
    assert at_hand(crew, guide) == [busy]
    busy.recalled = True
    assert at_hand(crew, guide) == []
    busy.leaving = True
    assert at_hand(crew, guide) == []
    del crew.members[1]
    assert at_hand(crew, guide) == [idle]
    engine.close()
