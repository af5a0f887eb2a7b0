"""What is recorded before a worker gets it, what that costs, and how a driver ends whose run another one has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shape.test_pool import Bench, Listed, items
from shoal.errors import TakenOver
from shoal.model import Factory, Item, Need, Node
from shoal.planner.durations import Durations
from shoal.shape.base import Policy
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal


class Asked(Listed):
    """Gives as many items as it is asked for, as a search does; notes how many that leaves open."""

    def __init__(self, given: Sequence[Item]) -> None:
        super().__init__(given)
        self.open = self.most_open = 0

    def take(self, most: int, workers: int) -> Sequence[Item]:
        given, self._items = self._items[:most], self._items[most:]
        self.open += len(given)
        self.most_open = max(self.most_open, self.open)
        return given

    def ended(self, item: Item, outcome: object) -> None:
        self.open -= 1


def handed_out(bench: Bench) -> list[list[int]]:
    """What workers are given from now on, one list for each time; all of it has to be recorded by then."""
    found: list[list[int]] = []
    submit = bench.engine.submit

    def noted(worker: int, given: Sequence[Item]) -> None:
        found.append([item.seq for item in given])
        assert set(found[-1]) <= set(bench.journal.records()), "handed out before it was recorded"
        submit(worker, given)

    bench.engine.submit = noted  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("seconds", [0.001, 0.03, 1.0])
def test_no_worker_gets_an_item_before_it_is_recorded(seconds: float) -> None:
    work = items(*[seconds] * 200)
    bench = Bench(work, Policy(commit_s=30), source=Asked(work))
    found = handed_out(bench)
    records = bench.run()
    assert sum(map(len, found)) == 200
    assert {record.state for record in records.values()} == {"done"}


class SlowDisk(MemoryJournal):
    """Each commit takes its time, in which its driver hears nothing."""

    bench: Bench

    def commit(self) -> None:
        self.bench.world.pass_time(0.005)
        super().commit()


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.03, 0.3])
def test_workers_do_not_wait_for_the_disk(seconds: float) -> None:
    work = items(*[seconds] * round(6 / seconds))
    bench = Bench([])
    journal = SlowDisk()
    journal.bench = bench
    durations = Durations()
    durations.tell_all(("", {}, seconds) for _ in range(10))
    pool = Pool(
        bench.engine,
        journal,
        [Lane(Factory("sim:x"), Need())],
        Asked(work),
        durations=durations,
        watcher=bench,
    )
    pool.run()
    busy = sum(ran.ended - ran.started for ran in bench.world.history) / 2
    first, last = (pick(ran.ended for ran in bench.world.history) for pick in (min, max))
    assert busy >= 0.95 * (last - first)


def test_a_source_that_learns_is_not_asked_before_a_worker_is_free_where_items_are_long() -> None:
    work = items(*[1.0] * 20)
    source = Asked(work)
    Bench(work, source=source).run()
    assert source.most_open == 2


@pytest.mark.parametrize("seconds", [0.1, 3.0], ids=["at a hand-out", "at a commit"])
def test_a_driver_that_was_replaced_ends_at_once_hands_out_nothing_and_records_nothing(
    seconds: float,
) -> None:
    bench = Bench(items(*[seconds] * 40), nodes=[Node("a", 2, 1 << 30)])
    while bench.world.now() < 1.0:
        bench.pool.step()
    heir = MemoryJournal(inherit=bench.journal)
    before = dict(heir.records())
    found = handed_out(bench)
    with pytest.raises(TakenOver):
        bench.pool.run()
    assert bench.world.now() < 1.0 + seconds + 0.5
    assert found == []
    bench.pool.abandon("the run is another driver's")
    with pytest.raises(TakenOver):
        bench.journal.commit()
    assert heir.records() == before


def test_short_items_are_handed_out_many_at_once_and_long_ones_singly() -> None:
    bench = Bench(items(*[0.001] * 400))
    found = handed_out(bench)
    bench.run()
    assert max(map(len, found)) >= 10
    assert len(found) < 100
    bench = Bench(items(*[1.0] * 10))
    found = handed_out(bench)
    bench.run()
    assert {len(given) for given in found} == {1}


def test_more_items_can_be_resumed_than_wait_at_a_time() -> None:
    bench = Bench([], nodes=[Node("a", 2, 1 << 30)])
    work = items(*[0.001] * 10_500)
    bench.journal.add(work)
    bench.journal.commit()
    pool = Pool(
        bench.engine,
        bench.journal,
        [Lane(Factory("sim:x"), Need())],
        Listed([]),
        resumed=iter(work),
        watcher=bench,
    )
    pool.run()
    assert bench.journal.counts()["done"] == 10_500
    assert max(moment.waiting for moment in bench.moments) < 10_200, "not all of them are read at once"
