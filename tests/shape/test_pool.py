"""What a pool promises, one promise a test, on the simulation engine: deterministic, and over in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from shoal.engine.sim import Behaviour, Fault, NodeDies, SimWorld, Startup
from shoal.errors import CannotPlace, EngineError, SpecError, StoreError
from shoal.model import Factory, Item, Need, Node, Outcome
from shoal.shape.base import Ended, Policy, Progress
from shoal.shape.pool import Lane, Pool, Source
from shoal.store import MemoryJournal
from shoal.store.items import ItemRecord


class Listed:
    """A source of items that are given; prunes what reports `prune`."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = list(items)

    def take(self, most: int, workers: int) -> Sequence[Item]:
        items, self._items = self._items, []
        return items

    def left(self) -> int:
        return len(self._items)

    def finished(self) -> bool:
        return not self._items

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return "bad curve" if metrics.get("prune") else None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


def items(*seconds: float, **params: Any) -> list[Item]:
    return [
        Item(seq, f"t{seq}", {"seconds": each, **params}, content=f"{each}")
        for seq, each in enumerate(seconds, 1)
    ]


def by_params(factory: Factory, item: Item) -> Behaviour:
    params = dict(item.params)
    for_attempts = params.pop("fails", 0)
    if item.used < for_attempts or (for_attempts and item.attempt <= for_attempts):
        return Behaviour(params["seconds"], "failed", error="no")
    return Behaviour(**params)


class Bench:
    """A pool on simulated nodes."""

    def __init__(
        self,
        work: Sequence[Item],
        policy: Policy | None = None,
        nodes: Sequence[Node] = (Node("a", 2, 1 << 30),),
        faults: Sequence[Fault] = (),
        world: SimWorld | None = None,
        name: str = "driver",
        startup: Startup | None = None,
        source: Source | None = None,
    ) -> None:
        self.world = world or SimWorld(
            nodes,
            by_params,
            faults=faults,
            startup=lambda _: startup or Startup(0.01),
            limit_s=1e5,
            record=True,
        )
        self.engine = self.world.connect(name)
        self.journal = MemoryJournal()
        self.pool = Pool(
            self.engine,
            self.journal,
            [Lane(Factory("sim:x"), Need(), policy or Policy())],
            source or Listed(work),
            watcher=self,
        )
        self.durable_at: dict[int, float] = {}
        self.moments: list[Progress] = []
        self.each_moment: Callable[[Progress], None] = lambda progress: None

    def durable(self, ended: Sequence[Ended]) -> None:
        self.durable_at.update({entry.item.seq: self.world.now() for entry in ended})

    def moment(self, progress: Progress) -> None:
        self.moments.append(progress)
        self.each_moment(progress)

    def run(self) -> dict[int, ItemRecord]:
        self.pool.run()
        self.engine.close()
        assert self.journal.violations == []
        return self.journal.records()


def test_a_failed_item_is_tried_again_on_another_worker_up_to_its_retries() -> None:
    bench = Bench(items(0.1, 0.1, 0.1, fails=2), Policy(retries=2))
    records = bench.run()
    assert [(record.state, record.item.used) for record in records.values()] == [("done", 3)] * 3
    first = [ran for ran in bench.world.history if ran.seq == 1]
    assert len({ran.worker for ran in first[:2]}) == 2
    earlier = [(each.counted, each.how, each.error, each.started) for each in bench.journal.attempts(1)]
    assert earlier == [(1, "failed", "no", first[0].started), (2, "failed", "no", first[1].started)]


def test_retries_wait_longer_each_time() -> None:
    bench = Bench(items(0.1, fails=3), Policy(retries=3, backoff_s=1.0))
    bench.run()
    runs = bench.world.history
    gaps = [later.started - earlier.ended for earlier, later in pairwise(runs)]
    assert gaps == pytest.approx([1, 2, 4], rel=0.1)


def test_a_crash_uses_an_attempt_of_the_running_item_and_of_no_other() -> None:
    work = items(*[0.001] * 50)
    work[20] = work[20]._replace(params={"seconds": 0.001, "crash": True})
    records = Bench(work, Policy(retries=1)).run()
    assert {record.state for seq, record in records.items() if seq != 21} == {"done"}
    assert {record.item.used for seq, record in records.items() if seq != 21} == {1}
    assert (records[21].state, records[21].item.used) == ("failed", 2)
    assert "crashed" in str(records[21].error)


def test_a_worker_that_takes_the_place_of_a_lost_one_is_recorded_with_the_reason() -> None:
    bench = Bench(
        items(0.1, 0.1, 0.1, 0.1, crash=True, error="signal 9\nand much more"), Policy(concurrent=1)
    )
    bench.run()
    found = [(event.subject, event.what, event.why) for event in bench.journal.events()]
    assert found == [
        (f"worker {number} on a", "restarted", f"worker {number - 1} on a was lost: signal 9")
        for number in (2, 3, 4)
    ]
    ends = [ran.ended for ran in bench.world.history[:3]]
    assert [event.at for event in bench.journal.events()] == pytest.approx(ends, abs=0.01)


def test_nothing_is_recorded_of_workers_that_go_as_they_should() -> None:
    bench = Bench(items(*[0.1] * 20), Policy(retries=2))
    bench.run()
    assert bench.journal.events() == []


def test_the_loss_of_a_node_uses_no_attempt() -> None:
    nodes = [Node("a", 1, 1 << 30), Node("b", 1, 1 << 30)]
    bench = Bench(items(*[1.0] * 6), Policy(retries=0), nodes, [NodeDies(1.5, "b")])
    records = bench.run()
    assert {(record.state, record.item.used) for record in records.values()} == {("done", 1)}
    earlier = [each for seq in records for each in bench.journal.attempts(seq)]
    assert [(each.counted, each.node, each.how) for each in earlier] == [(1, "b", "node")]


def test_a_run_that_lost_all_its_nodes_goes_on_when_one_comes_back() -> None:
    bench = Bench(items(*[1.0] * 6), faults=[NodeDies(1.5, "a", back_after=60)])
    assert {record.state for record in bench.run().values()} == {"done"}
    assert [(event.subject, event.what, event.why) for event in bench.journal.events()] == [
        ("node a", "lost", "a does not answer."),
        ("node a", "joined", "it came while the run was going, with 2 CPU, 1.0 GiB of memory"),
    ]


def test_a_hanging_item_is_ended_at_its_timeout_and_the_others_go_on() -> None:
    work = items(*[0.1] * 10)
    work[3] = work[3]._replace(params={"seconds": 1, "hang": True})
    records = Bench(work, Policy(timeout_s=5)).run()
    assert records[4].state == "failed"
    assert records[4].error == "timed out after 5.0s"
    assert sum(record.state == "done" for record in records.values()) == 9


def late_world(behave: Callable[[Item], Behaviour]) -> SimWorld:
    return SimWorld(
        [Node("a", 2, 1 << 30)],
        lambda factory, item: behave(item),
        startup=lambda _: Startup(0.01),
        limit_s=1e5,
        record=True,
    )


AS_CRASHES = Policy(timeout_s=5, retries=0, crashes=3, timeouts_count_as_crashes=True)


def test_a_timeout_can_count_as_a_crash_and_then_the_item_is_tried_again_in_a_new_worker() -> None:
    def behave(item: Item) -> Behaviour:
        return Behaviour(0.1, hang=item.seq == 4 and item.used < 2)

    bench = Bench(items(*[0.1] * 10), AS_CRASHES, world=late_world(behave))
    records = bench.run()
    assert {record.state for record in records.values()} == {"done"}
    assert {seq: record.item.used for seq, record in records.items() if record.item.used != 1} == {4: 3}
    tried = [ran for ran in bench.world.history if ran.seq == 4]
    assert [ran.state for ran in tried] == ["failed", "failed", "done"]
    assert len({ran.worker for ran in tried}) == 3
    for hung in tried[:2]:
        after = [
            ran for ran in bench.world.history if ran.worker == hung.worker and ran.started >= hung.ended
        ]
        assert {ran.state for ran in after} <= {"lost"}, "a worker in which something hung did more"


@pytest.mark.parametrize("ignores", [False, True], ids=["when asked", "when killed"])
def test_an_item_that_always_hangs_fails_after_as_many_attempts_as_crashes_allow(ignores: bool) -> None:
    def behave(item: Item) -> Behaviour:
        return Behaviour(0.1, hang=item.seq == 1, ignores_cancel=ignores)

    bench = Bench(items(*[0.1] * 5), AS_CRASHES, world=late_world(behave))
    records = bench.run()
    assert (records[1].state, records[1].item.used) == ("failed", 4)
    assert records[1].error == "timed out after 5.0s"
    assert {(record.state, record.item.used) for seq, record in records.items() if seq != 1} == {("done", 1)}


def test_an_item_that_fails_by_itself_is_no_timeout() -> None:
    records = Bench(items(0.1, fails=9), AS_CRASHES).run()
    assert (records[1].state, records[1].item.used) == ("failed", 1)


def test_where_reports_count_an_item_may_take_long_as_long_as_it_gets_on() -> None:
    signs = tuple((share / 10, {}, None) for share in range(1, 10))
    work = items(20.0, 20.0, reports=signs)
    work[1] = work[1]._replace(params={"seconds": 20.0, "reports": signs[:5], "hang": True})
    bench = Bench(work, Policy(timeout_s=5, timeout_since_report=True))
    records = bench.run()
    assert (records[1].state, records[2].state) == ("done", "failed")
    assert records[2].seconds == pytest.approx(10 + 5, abs=0.2)
    assert bench.journal.reports(1) == [], "a sign of life is nothing to record"
    assert {
        record.state for record in Bench(items(20.0, reports=signs), Policy(timeout_s=5)).run().values()
    } == {"failed"}


def test_a_pruned_item_ends_as_pruned_with_the_reason() -> None:
    work = items(10.0, 0.1)
    work[0] = work[0]._replace(params={"seconds": 10.0, "reports": ((0.1, {"prune": 1}, 1),)})
    bench = Bench(work)
    records = bench.run()
    assert (records[1].state, records[1].error) == ("pruned", "bad curve")
    assert bench.world.now() < 3


def test_no_more_items_run_at_once_than_allowed() -> None:
    bench = Bench(items(*[0.3] * 20), Policy(concurrent=1))
    assert bench.pool.progress().useful == 1, "more room would be of no use"
    assert Bench(items(*[0.3] * 20)).pool.progress().useful == 20
    bench.run()
    runs = sorted(bench.world.history, key=lambda ran: ran.started)
    assert all(later.started >= earlier.ended for earlier, later in pairwise(runs))


def test_stop_after_so_many_failures() -> None:
    bench = Bench(items(*[1.0] * 20, fails=9), Policy(stop_after=3))
    records = bench.run()
    assert bench.pool.verdict() == "failed"
    assert 3 <= sum(record.state == "failed" for record in records.values()) <= 4


def test_items_go_longest_first_as_soon_as_durations_are_known() -> None:
    """The group's sheet: 42 trials in the order of the sheet, nothing known at the start."""
    seconds = [59, 59, 346, 77, 146, 146] * 7
    nodes = [Node(name, 1, 1 << 30) for name in "abc"]
    bench = Bench(items(*seconds), nodes=nodes)
    bench.run()
    shortest = max(sum(seconds) / 3, max(seconds))
    assert bench.world.now() <= 1.03 * shortest
    by_hand = max(sum(seconds[first::3]) for first in range(3))
    assert by_hand > 1.3 * shortest


def test_chunk_mates_stuck_behind_a_long_item_go_to_another_worker() -> None:
    work = items(*[0.001] * 400)
    work[200] = work[200]._replace(params={"seconds": 30.0}, content="long")
    bench = Bench(work)
    bench.run()
    others = [at for seq, at in bench.durable_at.items() if seq != 201]
    assert max(others) < 2


def test_two_runs_share_the_workers_and_a_short_one_is_not_stuck_behind_a_long_one() -> None:
    long = Bench(items(*[0.1] * 400), name="long")
    short = Bench(items(*[0.1] * 10), world=long.world, name="short")
    going = [long.pool]
    while going:
        if long.world.now() > 3 and short.pool not in going and not short.durable_at:
            going.append(short.pool)
        going = [pool for pool in going if pool.step(0.01)]
    assert max(short.durable_at.values()) < 5.0
    assert max(long.durable_at.values()) < 1.1 * (410 * 0.1 / 2)


def test_two_equal_runs_that_start_together_progress_together() -> None:
    first = Bench(items(*[0.1] * 100), name="first")
    second = Bench(items(*[0.1] * 100), world=first.world, name="second")
    going = [first.pool, second.pool]
    while len(going) == 2:
        going = [pool for pool in going if pool.step(0.01)]
    lagging = min(len(first.durable_at), len(second.durable_at))
    assert lagging >= 90


def test_workers_that_cannot_start_end_the_run_with_the_reason() -> None:
    bench = Bench(items(0.1), startup=Startup(0.01, error="ZeroDivisionError: division by zero"))
    with pytest.raises(EngineError, match="division by zero"):
        bench.run()


def test_workers_that_miss_a_package_end_the_run_at_the_first_and_the_request_was_wrong() -> None:
    bench = Bench(items(0.1), startup=Startup(0.01, error="ModuleNotFoundError: No module named 'nope'"))
    with pytest.raises(SpecError, match=r"no item was tried: .*No module named 'nope'"):
        bench.run()
    assert bench.world.now() < 0.1


def test_what_can_never_be_placed_is_refused_at_once() -> None:
    world = SimWorld([Node("a", 1, 1 << 30)], by_params)
    pool = Pool(world.connect(), MemoryJournal(), [Lane(Factory("sim:x"), Need(cpu=4))], Listed(items(1.0)))
    with pytest.raises(CannotPlace, match="has 1 CPU, needs 4"):
        pool.run()
    assert world.now() == 0


class FullDisk(MemoryJournal):
    """Cannot commit between two moments."""

    def __init__(self, now: Callable[[], float], until: float) -> None:
        super().__init__()
        self._clock = now
        self._until = until
        self.refused = 0

    def commit(self) -> None:
        if 1.0 < self._clock() < self._until:
            self.refused += 1
            raise StoreError("no space left")
        super().commit()


@pytest.mark.parametrize(
    ("until", "ends_well"), [(10.0, True), (1e9, False)], ids=["freed in time", "never freed"]
)
def test_a_full_disk_pauses_the_run_and_ends_it_when_it_lasts(until: float, ends_well: bool) -> None:
    bench = Bench(items(*[0.5] * 20))
    journal = FullDisk(bench.world.now, until)
    pool = Pool(bench.engine, journal, [Lane(Factory("sim:x"), Need())], Listed(items(*[0.5] * 20)))
    if ends_well:
        pool.run()
        assert journal.counts()["done"] == 20
        assert journal.refused > 5
    else:
        with pytest.raises(StoreError, match="no space"):
            pool.run()
        assert len(bench.world.history) <= 8, "nothing more is handed out while nothing can be recorded"


def test_progress_says_how_long_the_rest_will_take() -> None:
    bench = Bench(items(*[1.0] * 40))
    bench.run()
    halfway = next(moment for moment in bench.moments if moment.counts.get("done", 0) >= 20)
    assert halfway.remaining_s == pytest.approx(10, rel=0.2)


def test_a_worker_that_is_leaving_still_counts_against_the_limit() -> None:
    long = Bench(items(*[5.0] * 6), Policy(concurrent=2), [Node("a", 3, 1 << 30)], name="long")
    short = [Bench(items(0.2, 0.2), world=long.world, name=name) for name in ("short", "brief")]
    while long.pool.step(0.01) and not all(len(bench.durable_at) == 2 for bench in short):
        for bench in short if long.world.now() > 1 else ():
            bench.pool.step(0.01)
    for bench in short:
        bench.engine.close()
    long.run()
    changes = [
        change
        for ran in long.world.history
        if ran.driver.startswith("long")
        for change in ((ran.started, 1), (ran.ended, -1))
    ]
    running = 0
    for _, change in sorted(changes):
        running += change
        assert running <= 2


def test_a_retry_goes_back_to_the_worker_that_failed_it_when_no_other_comes_free() -> None:
    work = items(0.1, 30.0)
    work[0] = work[0]._replace(params={"seconds": 0.1, "fails": 1})
    bench = Bench(work, Policy(retries=1))
    bench.run()
    assert bench.durable_at[1] < 5


def test_stopping_does_not_wait_for_workers_that_are_still_starting() -> None:
    bench = Bench(items(1.0, 1.0), startup=Startup(500.0))
    bench.each_moment = lambda progress: bench.pool.stop() if progress.now > 1 else None
    bench.run()
    assert bench.world.now() < 20


def starts(bench: Bench) -> dict[str, list[float]]:
    """When workers were started, by node."""
    found: dict[str, list[float]] = {}
    engine = bench.engine
    spawn = engine.spawn

    def noted(factory: Factory, place: Any) -> int:
        found.setdefault(place.host, []).append(engine.now())
        return spawn(factory, place)

    engine.spawn = noted  # type: ignore[method-assign]
    return found


def test_the_first_worker_of_a_node_starts_alone_where_starts_are_slow() -> None:
    bench = Bench(
        items(*[1.0] * 40), nodes=[Node("n0", 2, 1 << 30), Node("n1", 2, 1 << 30)], startup=Startup(0.4)
    )
    bench.engine.stagger_s = 5.0
    began, found = bench.engine.now(), starts(bench)
    bench.run()
    assert {host: len(times) for host, times in found.items()} == {"n0": 2, "n1": 2}
    for first, second in found.values():
        assert first - began < 0.1
        assert 1.4 <= second - first < 2.0, "the second comes when the first has done an item"


def test_others_do_not_wait_for_ever_for_a_first_worker_that_does_not_come_up() -> None:
    bench = Bench(items(*[1.0] * 40), nodes=[Node("n0", 2, 1 << 30)], startup=Startup(100.0))
    bench.engine.stagger_s = 3.0
    found = starts(bench)
    bench.run()
    [(first, second)] = found.values()
    assert 3.0 <= second - first < 4.0


def test_places_that_were_held_are_given_back_when_the_first_worker_did_it_all() -> None:
    bench = Bench(items(0.001, 0.001, 0.001), nodes=[Node("n0", 3, 1 << 30)], startup=Startup(1.0))
    bench.engine.stagger_s = 60.0
    found = starts(bench)
    bench.pool.run()
    assert len(found["n0"]) < 3
    assert len(bench.engine.reserve([Need()] * 3, 0.0).places) == 3


def test_the_end_does_not_wait_for_workers_that_are_still_starting() -> None:
    startups = iter([0.1, 500.0])
    nodes = [Node("n0", 2, 1 << 30)]
    world = SimWorld(nodes, by_params, startup=lambda _: Startup(next(startups)), limit_s=1e5, record=True)
    bench = Bench(items(0.5, 0.5), world=world)
    bench.run()
    assert bench.world.now() < 20
