"""A pool whose kind tunes it while it runs: which workers get items, what travels with them, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shape.test_pool import Listed, items
from shoal.engine.sim import Behaviour, SimWorld, Startup, WorkerDies
from shoal.model import Factory, Item, Need, Node, Place
from shoal.planner.durations import Durations
from shoal.shape.base import Policy
from shoal.shape.pool import Lane, Pool
from shoal.shape.pool.crew import Crew
from shoal.shape.recording import Recording
from shoal.shape.roster import Flight, Member
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
    pool = Pool(engine, journal, [Lane(Factory("sim:x"), Need(), Policy(crashes=3), guide)], source)
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


def crew_of(node: Node, need: Need, guide: Guide, devices: Sequence[tuple[str, ...]]) -> Any:
    """A crew whose workers are ready: one on each of these places."""
    engine = SimWorld([node], lambda *_: Behaviour(1.0)).connect()
    journal = MemoryJournal()
    recording = Recording(journal, 0.2, lambda item: None, None, 0.0)
    crew = Crew(engine, journal, recording, Lane(Factory("sim:x"), need, Policy(), guide), Durations(), {})
    for number, names in enumerate(devices):
        member = Member(number, Place(number, node.host, need, names), 0.0)
        member.ready_at = 0.0
        crew.roster.members[number] = member
    return crew


def numbers(crew: Any) -> list[int]:
    crew.gather()
    return [member.number for member in crew.hands.members]


def test_a_few_workers_of_a_node_are_spread_over_its_gpus() -> None:
    guide = Guide(active=2)
    # Places are given on one GPU until it is full.
    crew = crew_of(Node("a", 6, 1 << 30, gpu=2), Need(gpu=0.33), guide, [("0",)] * 3 + [("1",)] * 3)
    assert numbers(crew) == [0, 3]
    crew.roster.members[4].items = 1  # It has loaded what the others would have to load.
    assert numbers(crew) == [4, 0]
    guide._active = 6
    assert len(numbers(crew)) == 6


def test_who_is_at_work_counts_until_it_is_gone() -> None:
    """Otherwise another one would load its model beside it."""
    crew = crew_of(Node("a", 2, 1 << 30), Need(), Guide(active=1), [(), ()])
    busy, _ = crew.roster.members.values()
    crew.roster.took(busy, [Flight(items(1.0)[0], busy)])
    assert numbers(crew) == [0]
    busy.recalled = True
    assert numbers(crew) == []
    busy.leaving = True
    assert numbers(crew) == []
    del crew.roster.members[0]
    assert numbers(crew) == [1]
