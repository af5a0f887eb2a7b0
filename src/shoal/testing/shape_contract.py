"""The contract of shapes, as tests on the simulation engine. Inherit once per shape, in a class that pytest collects:

class TestMine(ShapeContract):
    def make_shape(self, engine, journal, work, policy, watcher): return MyShape(...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from shoal.engine.base import Engine
from shoal.engine.sim import (
    Behaviour,
    Duplicate,
    Fault,
    Late,
    NodeCutOff,
    NodeDies,
    SimEngine,
    SimWorld,
    Startup,
    WorkerDies,
)
from shoal.errors import TakenOver
from shoal.model import Factory, Item, Node
from shoal.shape.base import Ended, Policy, Progress, Shape, Watcher
from shoal.store import MemoryJournal
from shoal.store.items import ItemRecord

LIMIT_S = 1e4
"""Virtual seconds after which a shape that makes no progress is ended by its engine, with an error."""
FACTORY = Factory("sim:contract")


def work(*seconds: float, **params: Any) -> list[Item]:
    """Items numbered from 1 that take so long; `params` are further fields of `Behaviour`, or `fails`.

    `fails` is how many attempts at the item fail before one ends well.
    """
    return [Item(seq, f"item-{seq}", {"seconds": each, **params}) for seq, each in enumerate(seconds, 1)]


def behave(factory: Factory, item: Item) -> Behaviour:
    """What an item of `work` does; its metrics tell which attempt it was."""
    params = dict(item.params)
    if item.used < params.pop("fails", 0):
        return Behaviour(params["seconds"], "failed", error="told to fail")
    return Behaviour(**params, metrics={"attempt": item.attempt})


class Trial:
    """One shape at work in a simulated world, and what it tells its watcher. An heir goes on with its record."""

    def __init__(
        self,
        contract: ShapeContract,
        items: Sequence[Item],
        policy: Policy,
        faults: Iterable[Fault] = (),
        before: Trial | None = None,
    ) -> None:
        self._contract, self._items, self._policy = contract, items, policy
        self.world: SimWorld = before.world if before else self._world(faults)
        heir_of = before.engine if before and before.over_at is None else None
        self.engine: SimEngine = self.world.connect(inherit=heir_of)
        self.journal: MemoryJournal = before.journal if before else MemoryJournal()
        self.over_at: float | None = None
        """When the shape said that all is over."""
        self.told: list[int] = []
        """Items that the watcher heard of as durable."""
        self.told_at = 0.0
        """When it last did."""
        self.each_moment: Callable[[Progress], object] = lambda progress: None
        self.shape = contract.make_shape(self.engine, self.journal, items, policy, self)

    def _world(self, faults: Iterable[Fault]) -> SimWorld:
        return SimWorld(
            self._contract.nodes,
            behave,
            faults=faults,
            startup=lambda _: Startup(0.01),
            detect_s=1.0,
            limit_s=LIMIT_S,
            record=True,
        )

    def durable(self, ended: Sequence[Ended]) -> None:
        records = self.journal.records()
        assert all(records[entry.item.seq].state == entry.outcome.state for entry in ended), "told too early"
        self.told += [entry.item.seq for entry in ended]
        self.told_at = self.world.now()

    def moment(self, progress: Progress) -> None:
        self.each_moment(progress)

    def until(self, now: float) -> Trial:
        """Turn the loop until this moment."""
        while self.world.now() < now:
            assert self.shape.step(0.01), "it was over too early"
        return self

    def end(self) -> dict[int, ItemRecord]:
        """To the end of it, and of all that is still on its way: what is recorded then."""
        while self.shape.step():
            pass
        self.over_at = self.world.now()
        self.engine.close()
        self.world.settle()
        assert self.journal.violations == []
        assert not self.world.leftovers()
        return self.journal.records()

    def heir(self) -> Trial:
        """Another driver goes on with what is recorded; this one is killed as by `kill -9` where it still works."""
        self.world.crash(self.engine)
        self.journal.crash()
        return Trial(self._contract, self._items, self._policy, before=self)

    def ran(self, seq: int, state: str = "done") -> int:
        """How many attempts at an item really ended in this state."""
        return sum(ran.seq == seq and ran.state == state for ran in self.world.history)


class ShapeContract:
    """What every shape does with items that end, fail, hang and are lost. Fill in `make_shape`."""

    nodes: ClassVar[Sequence[Node]] = (Node("alpha", 2, 1 << 30), Node("beta", 2, 1 << 30))

    def make_shape(
        self,
        engine: Engine,
        journal: MemoryJournal,
        items: Sequence[Item],
        policy: Policy,
        watcher: Watcher,
    ) -> Shape:
        """A shape that does these items, with a worker of one CPU for each of several at a time.

        The journal may have some of them: those that it has without an end are gone on with, others that it has
        are over. `watcher` hears of every end that is durable, and of moments.
        """
        raise NotImplementedError

    def trial(
        self, items: Sequence[Item], faults: Iterable[Fault] = (), *, retries: int = 0, **rules: Any
    ) -> Trial:
        return Trial(self, items, Policy(retries=retries, **rules), faults)

    def test_every_item_ends_and_is_told_once_it_is_durable(self) -> None:
        trial = self.trial(work(1.0, 1.0, 1.0))
        records = trial.end()
        assert [record.state for record in records.values()] == ["done"] * 3
        assert sorted(trial.told) == [1, 2, 3]

    # Fence.

    @pytest.mark.parametrize("after_s", [0.0, 0.4, 30.0])
    def test_an_answer_that_comes_twice_changes_nothing(self, after_s: float) -> None:
        faults = [Duplicate(at, after_s, pick) for at in (0.0, 0.05, 0.9) for pick in range(4)]
        trial = self.trial(work(1.0, 1.0, 1.0), faults)
        found = {(record.state, record.item.attempt, record.item.used) for record in trial.end().values()}
        assert found == {("done", 1, 1)}
        assert sorted(trial.told) == [1, 2, 3]

    def test_an_answer_that_comes_late_changes_nothing_but_the_time(self) -> None:
        trial = self.trial(work(1.0, 1.0, 1.0), [Late(0.9, 3.0, pick) for pick in range(4)])
        assert {record.state for record in trial.end().values()} == {"done"}
        assert sorted(trial.told) == [1, 2, 3]

    def test_what_a_node_that_was_given_up_says_later_counts_for_nothing(self) -> None:
        """Both attempts at an item end well: the one that was cut off, and the one that replaced it."""
        trial = self.trial(work(*[2.0] * 4), [NodeCutOff(1.0, "beta", 2.5)])
        records = trial.end()
        assert any(trial.ran(seq) == 2 for seq in records), "nothing was redone"
        for record in records.values():
            assert (record.state, record.item.used) == ("done", 1)
            assert record.metrics == {"attempt": record.item.attempt}

    def test_an_answer_to_a_driver_that_died_is_not_taken_for_an_answer_to_the_next(self) -> None:
        """The first one died before it could record what it had handed out: attempts have the same number."""
        first = self.trial(work(2.0), commit_s=60.0).until(1.9)
        died = first.world.now()
        heir = first.heir()
        assert [record.state for record in heir.end().values()] == ["done"]
        assert heir.told_at >= died + 2.0, "it did not wait for its own attempt"

    def test_an_answer_to_an_earlier_attempt_is_not_taken_for_an_answer_to_this_one(self) -> None:
        """The first attempt fails, and its end comes a second time while the second attempt runs."""
        faults = [Duplicate(0.7, 1.0, pick) for pick in range(4)]
        trial = self.trial(work(1.0, fails=1), faults, retries=1)
        [record] = trial.end().values()
        assert (record.state, record.item.used) == ("done", 2)
        assert record.seconds == pytest.approx(1.0)

    def test_a_driver_that_was_replaced_ends_and_records_nothing(self) -> None:
        trial = self.trial(work(*[1.0] * 6)).until(1.5)
        heir = MemoryJournal(inherit=trial.journal)
        before = dict(heir.records())
        with pytest.raises(TakenOver):
            trial.end()
        trial.shape.abandon("another driver has the run")
        with pytest.raises(TakenOver):
            trial.journal.commit()
        assert heir.records() == before

    # Retry.

    def test_an_item_that_fails_is_tried_again_as_often_as_allowed(self) -> None:
        trial = self.trial(work(0.5, fails=2), retries=2)
        [record] = trial.end().values()
        assert (record.state, record.item.used, record.error) == ("done", 3, None)
        assert trial.told == [1]

    def test_an_item_that_fails_too_often_has_failed_with_its_error(self) -> None:
        [record] = self.trial(work(0.5, fails=9), retries=2).end().values()
        assert (record.state, record.item.used, record.error) == ("failed", 3, "told to fail")

    def test_a_crash_uses_an_attempt_of_the_item_that_ran(self) -> None:
        trial = self.trial(work(2.0), [WorkerDies(1.0)], retries=1)
        assert [(record.state, record.item.used) for record in trial.end().values()] == [("done", 2)]
        [record] = self.trial(work(2.0), [WorkerDies(1.0)]).end().values()
        assert (record.state, record.item.used) == ("failed", 1)
        assert str(record.error).startswith("crashed: ")

    def test_the_loss_of_a_node_uses_no_attempt(self) -> None:
        faults = [NodeDies(1.0, node.host, back_after=5.0) for node in self.nodes]
        trial = self.trial(work(2.0, 2.0), faults)
        assert {(record.state, record.item.used) for record in trial.end().values()} == {("done", 1)}

    # Timeout.

    @pytest.mark.parametrize("ignores", [False, True], ids=["ends when asked", "has to be killed"])
    def test_an_item_that_hangs_is_ended_at_its_timeout(self, ignores: bool) -> None:
        hanging = work(1.0, hang=True, ignores_cancel=ignores)
        trial = self.trial(hanging, timeout_s=5.0, grace_s=2.0)
        [record] = trial.end().values()
        assert (record.state, record.item.used, record.error) == ("failed", 1, "timed out after 5.0s")
        assert record.seconds == pytest.approx(7.0 if ignores else 5.0, abs=0.2)

    # Stop and resume.

    def test_a_stop_ends_what_runs_and_a_resume_does_the_rest(self) -> None:
        trial = self.trial(work(*[1.0] * 10))
        trial.each_moment = lambda progress: trial.shape.stop() if progress.now > 1.5 else None
        stopped = dict(trial.end())
        assert trial.shape.stopping
        assert trial.over_at == pytest.approx(1.5, abs=0.2)
        states = {record.state for record in stopped.values()}
        assert "stopped" in states
        assert states <= {"done", "stopped", "waiting"}
        assert {record.item.used for record in stopped.values() if record.state == "stopped"} == {0}
        self.check_resumed(trial, stopped)

    def test_a_stop_does_not_wait_for_an_item_that_ignores_it(self) -> None:
        trial = self.trial(work(1.0, hang=True, ignores_cancel=True), grace_s=2.0)
        trial.until(1.0).shape.stop()
        [record] = trial.end().values()
        assert (record.state, record.item.used) == ("stopped", 0)
        assert trial.over_at == pytest.approx(3.0, abs=0.2)

    def test_a_stop_that_comes_when_all_has_ended_comes_too_late(self) -> None:
        trial = self.trial(work(1.0))
        trial.end()
        trial.shape.stop()
        assert not trial.shape.stopping

    def test_a_killed_driver_loses_nothing_that_was_done_and_the_next_does_the_rest(self) -> None:
        trial = self.trial(work(*[1.0] * 10)).until(2.5)
        before = {seq: record for seq, record in trial.journal.records().items() if record.state == "done"}
        assert before
        self.check_resumed(trial, before)

    def check_resumed(self, trial: Trial, before: dict[int, ItemRecord]) -> None:
        """That an heir does all that was not done, and nothing that was."""
        heir = trial.heir()
        after = heir.end()
        assert {record.state for record in after.values()} == {"done"}
        assert sorted(after) == list(range(1, 11))
        done = [seq for seq, record in before.items() if record.state == "done"]
        assert all(after[seq] == before[seq] for seq in done)
        assert all(heir.ran(seq) == 1 for seq in done)

    # Abandon.

    def test_what_ran_when_the_engine_was_lost_waits_again_and_used_no_attempt(self) -> None:
        trial = self.trial(work(*[5.0] * 6)).until(1.0)
        ran = {running.item.seq for running in trial.shape.progress().running}
        trial.shape.abandon("the cluster is gone")
        trial.journal.commit()
        records = trial.journal.records()
        assert ran
        assert {(records[seq].state, records[seq].item.used) for seq in ran} == {("waiting", 0)}
        assert {records[seq].error for seq in ran} == {"the cluster is gone"}
        assert {seq for seq, record in records.items() if record.state == "running"} == set()

    # Progress.

    def test_progress_says_what_runs_what_ended_and_how_long_the_rest_takes(self) -> None:
        trial = self.trial(work(*[1.0] * 8)).until(0.5)
        begun = trial.shape.progress()
        assert (len(begun.running), begun.workers, sum(begun.counts.values())) == (4, 4, 0)
        assert begun.waiting == 4
        assert {running.node for running in begun.running} == {node.host for node in self.nodes}
        halfway = trial.until(1.5).shape.progress()
        assert halfway.counts["done"] == 4
        assert halfway.remaining_s is not None
        assert 0.0 < halfway.remaining_s < 3.0
        trial.end()
        over = trial.shape.progress()
        assert (list(over.running), over.workers, over.waiting, over.counts["done"]) == ([], 0, 0, 8)

    def test_where_the_workers_time_went_adds_up(self) -> None:
        trial = self.trial(work(*[1.0] * 8), [WorkerDies(1.5)], retries=1)
        trial.end()
        uses = trial.shape.worker_uses()
        assert {use.node for use in uses} == {node.host for node in self.nodes}
        assert sum(use.items for use in uses) == len(trial.world.history) == 9
        assert sum(use.work_s for use in uses) == pytest.approx(8.5, abs=0.1)
        assert all(use.startup_s == pytest.approx(0.01, abs=0.01) for use in uses)
