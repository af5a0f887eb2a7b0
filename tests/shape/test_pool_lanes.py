"""Pools with several sorts of workers: who gets which items, and how they share what nodes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shape.test_pool import Listed, by_params, items
from shoal.engine.sim import SimWorld, Startup
from shoal.model import Factory, Item, Need, Node, Outcome
from shoal.shape.base import Policy
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal

FIRST, SECOND = Factory("sim:first"), Factory("sim:second")


class Stages(Listed):
    """Gives the items of each stage once those of the stage before have ended."""

    def __init__(self, *stages: Sequence[Item]) -> None:
        super().__init__(())
        self._stages = list(stages)
        self._open = 0

    def take(self, most: int, workers: int) -> Sequence[Item]:
        if not self._open and self._stages:
            self._items = list(self._stages.pop(0))
            self._open = len(self._items)
        return super().take(most, workers)

    def finished(self) -> bool:
        return not self._stages

    def ended(self, item: Item, outcome: Outcome) -> None:
        self._open -= 1


def lane_of(item: Item) -> int:
    return int(item.params.get("lane", 0))


def numbered(work: Sequence[Item], lane: int, after: int = 0) -> list[Item]:
    return [
        item._replace(seq=item.seq + after, id=f"t{item.seq + after}", params={**item.params, "lane": lane})
        for item in work
    ]


class Bench:
    """A pool of two lanes on simulated nodes; remembers which factory ran each item."""

    def __init__(self, source: Any, cpu: int, policies: Sequence[Policy] = (Policy(), Policy())) -> None:
        self.ran_by: dict[int, str] = {}

        def model(factory: Factory, item: Item) -> Any:
            self.ran_by[item.seq] = factory.target
            given = {key: value for key, value in item.params.items() if key != "lane"}
            return by_params(factory, item._replace(params=given))

        self.world = SimWorld(
            [Node("a", cpu, 1 << 30)],
            model,
            startup=lambda _: Startup(0.01),
            limit_s=1e4,
            record=True,
        )
        self.engine = self.world.connect()
        self.journal = MemoryJournal()
        lanes = [Lane(FIRST, Need(), policies[0]), Lane(SECOND, Need(), policies[1])]
        self.pool = Pool(self.engine, self.journal, lanes, source, lane_of=lane_of)

    def run(self) -> dict[int, Any]:
        self.pool.run()
        self.engine.close()
        assert self.journal.violations == []
        assert not self.world.leftovers()
        return self.journal.records()


def test_each_item_runs_on_a_worker_of_its_lane() -> None:
    work = [*numbered(items(*[0.1] * 10), 0), *numbered(items(*[0.1] * 10), 1, after=10)]
    bench = Bench(Listed(work), cpu=4)
    records = bench.run()
    assert {record.state for record in records.values()} == {"done"}
    assert {bench.ran_by[seq] for seq in range(1, 11)} == {FIRST.target}
    assert {bench.ran_by[seq] for seq in range(11, 21)} == {SECOND.target}


def test_a_second_stage_gets_the_places_that_the_first_held() -> None:
    source = Stages(numbered(items(*[0.5] * 6), 0), numbered(items(0.5, 0.5), 1, after=6))
    bench = Bench(source, cpu=1)
    records = bench.run()
    assert [record.state for record in records.values()] == ["done"] * 8
    first = max(ran.ended for ran in bench.world.history if ran.seq <= 6)
    second = min(ran.started for ran in bench.world.history if ran.seq > 6)
    assert first <= second < first + 3, "the workers of the first stage were let go"


def test_idle_workers_of_a_lane_make_room_for_another_though_they_will_be_needed_again() -> None:
    stages = [numbered(items(0.5), lane, after=seq) for seq, lane in enumerate((0, 1, 0))]
    bench = Bench(Stages(*stages), cpu=1)
    records = bench.run()
    assert [record.state for record in records.values()] == ["done"] * 3
    assert [bench.ran_by[seq] for seq in (1, 2, 3)] == [FIRST.target, SECOND.target, FIRST.target]


def test_a_lane_with_work_gets_a_worker_beside_one_that_has_all_places() -> None:
    work = [*numbered(items(*[1.0] * 100), 0), *numbered(items(*[1.0] * 3), 1, after=100)]
    bench = Bench(Listed(work), cpu=2)
    bench.run()
    second = min(ran.started for ran in bench.world.history if ran.seq > 100)
    assert second < 10, "it did not wait for the fifty seconds of the other lane"


def test_each_lane_has_its_own_rules() -> None:
    work = [*numbered(items(0.1, fails=1), 0), *numbered(items(0.1, fails=1), 1, after=1)]
    records = Bench(Listed(work), cpu=2, policies=(Policy(), Policy(retries=1))).run()
    assert [record.state for record in records.values()] == ["failed", "done"]


def test_the_time_limit_of_a_lane_ends_its_items_only() -> None:
    work = [*numbered(items(5.0), 0), *numbered(items(5.0), 1, after=1)]
    records = Bench(Listed(work), cpu=2, policies=(Policy(timeout_s=1.0), Policy())).run()
    assert [record.state for record in records.values()] == ["failed", "done"]
