"""The simulation engine: the contract, and what only a simulation can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import pytest

from shoal.engine.base import Engine
from shoal.engine.sim import (
    DriverCrashed,
    DriverCrashes,
    Duplicate,
    Fault,
    Late,
    NodeCutOff,
    NodeDies,
    SimEngine,
    SimWorld,
    SlowNode,
    WorkerDies,
    random_faults,
)
from shoal.errors import CannotPlace, EngineError, NotFound
from shoal.model import (
    Factory,
    Granted,
    Item,
    ItemEnded,
    ItemStarted,
    LeaseRecalled,
    Need,
    Node,
    NodeJoined,
    NodeLost,
    Refused,
    WorkerLost,
    WorkerReady,
)
from shoal.testing import EngineContract, collect, quiet, simulated, simulated_start
from shoal.testing.events import ended, heard, lost, of

ALPHA = Node("alpha", cpu=2, memory_bytes=1 << 32)
BETA = Node("beta", cpu=2, memory_bytes=1 << 32, speed=2.0)
FACTORY = Factory("shoal.testing.runners:Scripted")


class TestSimKeepsTheContract(EngineContract):
    def make_engine(self, nodes: Sequence[Node]) -> Engine:
        self.world = SimWorld(nodes, simulated, startup=simulated_start)
        return self.world.connect()

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        world = SimWorld(nodes, simulated, startup=simulated_start)
        return world.connect("first"), world.connect("second")

    def leftovers(self, engine: Engine) -> Sequence[str]:
        left = self.world.leftovers()
        return [str(left)] if left else []


def make(*nodes: Node, faults: Iterable[Fault] = (), **options: float) -> SimWorld:
    nodes = nodes or (ALPHA,)
    return SimWorld(nodes, simulated, 0, faults, startup=simulated_start, record=True, **options)


def sleep(seq: int, seconds: float, attempt: int = 0) -> Item:
    return Item(seq, f"item-{seq}", {"seconds": seconds, "value": seq}, attempt=attempt)


def hire(engine: SimEngine, host: str | None = None) -> int:
    return engine.spawn(FACTORY, engine.reserve([Need(node=host)], None).places[0])


def busy(engine: SimEngine, seconds: float, host: str | None = None, seq: int = 1) -> int:
    """A worker in the midst of an item."""
    worker = hire(engine, host)
    engine.submit(worker, [sleep(seq, seconds)])
    collect(engine, heard(ItemStarted), 10)
    return worker


def test_a_fast_node_needs_less_time() -> None:
    world = make(ALPHA, BETA)
    engine = world.connect()
    for seq, host in enumerate(("alpha", "beta"), 1):
        engine.submit(hire(engine, host), [sleep(seq, 8)])
    took = {event.seq: event.outcome.seconds for event in of(ItemEnded, collect(engine, ended(1, 2), 20))}
    assert took == pytest.approx({1: 8, 2: 4})


def test_a_slow_spell_stretches_what_falls_into_it() -> None:
    world = make(faults=[SlowNode(at=3, host="alpha", factor=4, for_s=8)])
    engine = world.connect()
    engine.submit(hire(engine), [sleep(1, 10)])
    outcome = of(ItemEnded, collect(engine, ended(1), 60))[0].outcome
    assert outcome.seconds == pytest.approx(10 + 8 - 8 / 4)


def test_waiting_is_the_only_thing_that_takes_time() -> None:
    engine = make().connect()
    worker = hire(engine)
    engine.submit(worker, [sleep(1, 5)])
    assert engine.now() == 0
    while not of(ItemEnded, engine.wait(inf)):
        pass
    assert engine.now() == pytest.approx(5, abs=0.01)


def test_waiting_for_ever_for_nothing_is_an_error_and_so_is_going_past_the_limit() -> None:
    with pytest.raises(EngineError, match="nothing will ever happen"):
        make().connect().wait(inf)
    with pytest.raises(EngineError, match="limit of 100"):
        quiet(make(limit_s=100).connect(), 200)


def test_a_fault_on_a_node_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NotFound, match="alfa"):
        make(faults=[NodeDies(1, "alfa")])


def test_a_worker_that_dies_by_itself_takes_its_item_with_it() -> None:
    engine = make(faults=[WorkerDies(at=2)]).connect()
    worker = hire(engine)
    engine.submit(worker, [sleep(1, 5), sleep(2, 5)])
    gone = of(WorkerLost, collect(engine, lost(worker), 10))[0]
    assert (gone.cause, gone.running) == ("crash", (1, 0))
    assert gone.at == 2


def test_a_worker_that_dies_before_it_is_ready_has_failed_to_start() -> None:
    engine = make(faults=[WorkerDies(at=2)]).connect()
    factory = FACTORY._replace(arguments={"start_s": 5})
    worker = engine.spawn(factory, engine.reserve([Need()], None).places[0])
    assert of(WorkerLost, collect(engine, lost(worker), 10))[0].cause == "start"


def test_a_dead_node_is_noticed_and_may_come_back_empty() -> None:
    world = make(ALPHA, BETA, faults=[NodeDies(at=2, host="beta", back_after=20)], detect_s=5)
    engine = world.connect()
    kept, gone = hire(engine, "alpha"), hire(engine, "beta")
    engine.submit(kept, [sleep(1, 30)])
    engine.submit(gone, [sleep(2, 30)])
    events = collect(engine, ended(1), 60)
    story = [event for event in events if isinstance(event, NodeLost | WorkerLost | NodeJoined)]
    assert [type(event) for event in story] == [NodeLost, WorkerLost, NodeJoined]
    assert [event.at for event in story] == [7, 7, 22]
    assert (story[1].worker, story[1].cause, story[1].running) == (gone, "node", (2, 0))  # type: ignore[union-attr]
    assert [node.host for node in engine.nodes()] == ["alpha", "beta"]
    assert world.leftovers().workers == (kept,)


def test_a_node_that_restarts_before_anybody_noticed_is_lost_all_the_same() -> None:
    world = make(faults=[NodeDies(at=2, host="alpha", back_after=1)], detect_s=5)
    engine = world.connect()
    worker = busy(engine, 30)
    events = collect(engine, heard(NodeJoined), 10)
    assert [type(event) for event in events] == [NodeLost, WorkerLost, NodeJoined]
    assert engine.now() == 3
    assert quiet(engine, 10) == []
    assert worker not in world.leftovers().workers


def test_a_node_that_is_gone_can_hold_nothing() -> None:
    world = make(ALPHA, faults=[NodeDies(at=2, host="alpha")])
    engine = world.connect()
    held = engine.reserve([Need()], None).places[0]
    hire(engine)
    pending = engine.reserve([Need()], None)
    events = collect(engine, heard(Refused), 10)
    assert of(Refused, events)[0].reservation == pending.id
    with pytest.raises(CannotPlace, match="there are no nodes"):
        engine.reserve([Need()], None)
    assert engine.capacity(Need()) == 0
    worker = engine.spawn(FACTORY, held)
    assert of(WorkerLost, collect(engine, lost(worker), 1))[0].cause == "node"
    engine.close()
    assert not world.leftovers()


def test_a_short_cut_only_delays_what_is_said() -> None:
    world = make(faults=[NodeCutOff(at=2, host="alpha", for_s=4)], detect_s=5)
    engine = world.connect()
    worker = busy(engine, 3)
    quiet(engine, 2.5)
    engine.submit(worker, [sleep(2, 1)])
    events = collect(engine, ended(1, 2), 20)
    assert [type(event) for event in events] == [ItemEnded, ItemStarted, ItemEnded]
    assert [event.at for event in events] == pytest.approx([3, 6, 7], abs=0.01)
    assert engine.now() == pytest.approx(7, abs=0.01)


def test_answers_of_a_node_that_was_given_up_arrive_late_and_its_workers_are_gone() -> None:
    world = make(ALPHA, BETA, faults=[NodeCutOff(at=2, host="beta", for_s=10)], detect_s=5)
    engine = world.connect()
    worker = hire(engine, "beta")
    engine.submit(worker, [sleep(1, 6), sleep(2, 100)])
    events = quiet(engine, 30)
    assert [type(event) for event in events] == [
        WorkerReady,
        ItemStarted,
        NodeLost,
        WorkerLost,
        NodeJoined,
        ItemEnded,
        ItemStarted,
    ]
    assert of(WorkerLost, events)[0].running == (1, 0)
    stale = of(ItemEnded, events)[0]
    assert (stale.worker, stale.seq, stale.attempt) == (worker, 1, 0)
    assert stale.at == pytest.approx(3, abs=0.01)
    assert world.leftovers().workers == ()
    assert engine.reserve([Need(node="beta")] * 2, None).places


def test_a_worker_that_crashes_on_a_node_that_was_given_up_is_lost_once() -> None:
    world = make(faults=[NodeCutOff(at=2, host="alpha", for_s=10), WorkerDies(at=3)], detect_s=5)
    engine = world.connect()
    busy(engine, 30)
    assert [event.cause for event in of(WorkerLost, quiet(engine, 30))] == ["node"]


def test_an_order_to_start_that_a_cut_held_back_is_void_once_the_node_is_given_up() -> None:
    world = make(faults=[NodeCutOff(at=0, host="alpha", for_s=10)], detect_s=5)
    engine = world.connect()
    place = engine.reserve([Need()], None).places[0]
    quiet(engine, 1)
    worker = engine.spawn(FACTORY, place)
    engine.submit(worker, [sleep(1, 1)])
    events = quiet(engine, 30)
    assert [type(event) for event in events] == [NodeLost, WorkerLost, NodeJoined]
    assert world.history == []


def test_a_late_answer_is_overtaken_and_a_double_one_comes_twice() -> None:
    engine = make(faults=[Late(at=1, by_s=5)]).connect()
    engine.submit(hire(engine), [sleep(1, 2), sleep(2, 1)])
    story = [
        (type(event), event.seq) for event in quiet(engine, 20) if isinstance(event, ItemStarted | ItemEnded)
    ]
    assert story == [(ItemStarted, 1), (ItemStarted, 2), (ItemEnded, 2), (ItemEnded, 1)]
    engine = make(faults=[Duplicate(at=1, after_s=5)]).connect()
    engine.submit(hire(engine), [sleep(1, 2), sleep(2, 1)])
    assert [event.seq for event in of(ItemEnded, quiet(engine, 20))] == [1, 2, 1]


def test_two_drivers_hear_only_of_their_own_workers_and_at_the_right_times() -> None:
    world = make()
    first, second = world.connect("first"), world.connect("second")
    busy(first, 3)
    worker = hire(second)
    second.submit(worker, [sleep(1, 1), sleep(2, 1)])
    assert of(ItemEnded, collect(first, ended(1), 10))
    assert second.now() == first.now() == pytest.approx(3, abs=0.01)
    events = second.wait(0)
    assert second.now() == first.now()
    assert {event.worker for event in of(ItemEnded, events)} == {worker}
    assert [event.at for event in of(ItemEnded, events)] == pytest.approx([1, 2], abs=0.01)


def test_a_driver_gives_back_only_what_it_has_above_its_share_and_never_its_last_worker() -> None:
    world = make(ALPHA, BETA)
    first, second, third = world.connect("first"), world.connect("second"), world.connect("third")
    workers = [hire(first) for _ in range(4)]
    asked = [second.reserve([Need()], None) for _ in range(4)]
    assert not any(reservation.places for reservation in asked)
    recalled = {event.worker for event in of(LeaseRecalled, quiet(first, 5))}
    assert recalled == set(workers[2:])
    for worker in recalled:
        first.end(worker)
    quiet(first, 1)
    places = [event.places[0] for event in of(Granted, second.wait(1))]
    assert len(places) == 2
    for place in places:
        second.spawn(FACTORY, place)
    third.reserve([Need()], None)
    quiet(third, 1)
    asked_back = of(LeaseRecalled, [*first.wait(0), *second.wait(0)])
    assert len(asked_back) == 1


def test_devices_are_shared_out_like_processors() -> None:
    world = make(Node("alpha", cpu=64, memory_bytes=1 << 40, gpu=2))
    first, second = world.connect("first"), world.connect("second")
    for _ in range(2):
        first.spawn(FACTORY, first.reserve([Need(gpu=1)], None).places[0])
    second.reserve([Need(gpu=1)], None)
    assert len(of(LeaseRecalled, quiet(first, 1))) == 1


def test_workers_of_a_crashed_driver_end_and_their_places_come_free() -> None:
    world = make(linger_s=2)
    first, second = world.connect("first"), world.connect("second")
    busy(first, 100)
    hire(first)
    pending = second.reserve([Need(), Need()], None)
    world.crash(first)
    with pytest.raises(DriverCrashed):
        first.wait(1)
    first.close()
    granted = of(Granted, collect(second, heard(Granted), 10))[0]
    assert granted.reservation == pending.id
    assert second.now() <= 2.1
    second.close()
    assert not world.leftovers()


def test_answers_to_a_crashed_driver_reach_nobody_or_the_one_that_goes_on_for_it() -> None:
    for inherit in (False, True):
        world = make(linger_s=1000)
        first = world.connect()
        worker = busy(first, 3)
        world.crash(first)
        second = world.connect(inherit=first if inherit else None)
        stale = [(event.worker, event.seq) for event in of(ItemEnded, quiet(second, 10))]
        assert stale == ([(worker, 1)] if inherit else [])


def test_nothing_is_inherited_from_a_driver_that_lives() -> None:
    world = make()
    with pytest.raises(EngineError, match="has not crashed"):
        world.connect(inherit=world.connect())


def test_a_driver_can_be_made_to_die_at_a_time_or_in_a_call() -> None:
    world = make(faults=[DriverCrashes(at=4)])
    engine = world.connect()
    busy(engine, 100)
    with pytest.raises(DriverCrashed):
        quiet(engine, 100)
    assert world.now() == 4
    with pytest.raises(DriverCrashed):
        engine.now()
    world = make()
    engine = world.connect(crash_after_calls=2)
    engine.nodes()
    place = engine.reserve([Need()], None).places[0]
    with pytest.raises(DriverCrashed):
        engine.spawn(FACTORY, place)
    world.settle()
    assert not world.leftovers()


def test_a_driver_that_dies_before_its_worker_has_started_leaves_none() -> None:
    world = make()
    engine = world.connect()
    hire(engine)
    world.crash(engine)
    world.settle()
    assert not world.leftovers()


def test_random_faults_depend_on_the_seed_alone_and_lie_within_the_horizon() -> None:
    nodes = [ALPHA, BETA]
    drawn = [random_faults(seed, 60, nodes, driver_crashes=2) for seed in range(200)]
    assert drawn == [random_faults(seed, 60, nodes, driver_crashes=2) for seed in range(200)]
    kinds = {type(fault) for faults in drawn for fault in faults}
    assert kinds == {WorkerDies, NodeDies, NodeCutOff, SlowNode, Late, Duplicate, DriverCrashes}
    assert all(0 <= fault.at <= 60 for faults in drawn for fault in faults)
    deaths = [fault for faults in drawn for fault in faults if isinstance(fault, NodeDies)]
    assert all(fault.back_after is not None for fault in deaths if fault.host == "alpha")
    assert any(fault.back_after is None for fault in deaths)


def test_what_happens_at_one_instant_is_heard_together() -> None:
    engine = make().connect()
    engine.submit(hire(engine), [sleep(1, 5)])
    assert [type(event) for event in engine.wait(10)] == [WorkerReady, ItemStarted]


def test_a_start_that_is_heard_after_the_end_blames_nobody() -> None:
    engine = make(faults=[Late(at=1, by_s=5)]).connect()
    worker = hire(engine)
    quiet(engine, 2)
    engine.submit(worker, [sleep(1, 0.5)])
    assert [type(event) for event in quiet(engine, 10)] == [ItemEnded, ItemStarted]
    engine.kill(worker)
    assert of(WorkerLost, collect(engine, lost(worker), 1))[0].running is None


def test_an_order_to_a_node_that_died_on_the_way_is_never_carried_out() -> None:
    world = make(faults=[NodeDies(at=0.2, host="alpha", back_after=0.3)], latency_s=1)
    engine = world.connect()
    worker = hire(engine)
    engine.submit(worker, [sleep(1, 1)])
    assert [type(event) for event in quiet(engine, 10)] == [NodeLost, WorkerLost, NodeJoined]
    assert world.history == []
    assert world.leftovers().workers == ()


def test_neither_a_last_worker_nor_an_empty_place_is_asked_back() -> None:
    world = make(ALPHA._replace(cpu=1))
    first, second = world.connect("first"), world.connect("second")
    hire(first)
    second.reserve([Need()], None)
    assert of(LeaseRecalled, quiet(first, 5)) == []
    world = make()
    first, second = world.connect("first"), world.connect("second")
    first.reserve([Need(), Need()], None)
    second.reserve([Need()], None)
    assert quiet(first, 5) == []


def test_room_that_another_driver_is_owed_is_not_given_to_one_that_has_its_share() -> None:
    world = make(ALPHA._replace(cpu=4))
    first, second = world.connect("first"), world.connect("second")
    held = first.reserve([Need(), Need()], None).places
    gang = second.reserve([Need()] * 3, None)
    more = first.reserve([Need()], None)
    assert gang.places == more.places == ()
    first.release(held[0])
    assert [event.reservation for event in of(Granted, second.wait(1))] == [gang.id]
    assert first.wait(1) == []


def test_a_place_holds_one_worker_of_the_driver_that_has_it() -> None:
    world = make()
    first, second = world.connect("first"), world.connect("second")
    place = first.reserve([Need()], None).places[0]
    with pytest.raises(EngineError, match="not free for this driver"):
        second.spawn(FACTORY, place)
    first.spawn(FACTORY, place)
    with pytest.raises(EngineError, match="not free for this driver"):
        first.spawn(FACTORY, place)
