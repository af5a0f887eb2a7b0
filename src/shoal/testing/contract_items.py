"""The engine contract about items: they start, report and end in order, one at a time; or are recalled."""

from __future__ import annotations

import pytest

from shoal.model import ItemEnded, ItemProgressed, ItemsReturned, ItemStarted, WorkerLost, WorkerReady
from shoal.testing.contract_base import ContractBase, Start, item
from shoal.testing.events import ended, heard, lost, of, quiet


class ItemContract(ContractBase):
    """Inherited by `EngineContract`."""

    def test_a_worker_is_ready_and_then_runs_its_items_in_order(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        ready = of(WorkerReady, self.collect(engine, heard(WorkerReady)))[0]
        assert ready.worker == worker
        assert ready.startup_s >= 0
        engine.submit(worker, [item(1, value=10), item(2, value=20)])
        engine.submit(worker, [item(3, value=30)])
        events = self.collect(engine, ended(1, 2, 3))
        steps = [(type(event), event.seq) for event in events if isinstance(event, ItemStarted | ItemEnded)]
        assert steps == [(kind, seq) for seq in (1, 2, 3) for kind in (ItemStarted, ItemEnded)]
        outcomes = [event.outcome for event in of(ItemEnded, events)]
        assert [outcome.metrics["value"] for outcome in outcomes] == [10, 20, 30]
        assert {(outcome.state, outcome.error) for outcome in outcomes} == {("done", None)}

    def test_a_chunk_may_be_submitted_before_the_worker_is_ready(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine, start_s=0.2)
        engine.submit(worker, [item(1), item(2)])
        events = self.collect(engine, ended(1, 2))
        assert isinstance(events[0], WorkerReady)
        assert [event.seq for event in of(ItemEnded, events)] == [1, 2]

    def test_many_items_on_two_workers_each_start_and_end_once(self, start: Start) -> None:
        engine = start()
        workers = [self.worker(engine), self.worker(engine)]
        engine.submit(workers[0], [item(seq) for seq in range(1, 101)])
        engine.submit(workers[1], [item(seq) for seq in range(101, 201)])
        events = self.collect(engine, ended(*range(1, 201)))
        for worker, seqs in zip(workers, (range(1, 101), range(101, 201)), strict=True):
            assert [event.seq for event in of(ItemStarted, events) if event.worker == worker] == list(seqs)
            assert [event.seq for event in of(ItemEnded, events) if event.worker == worker] == list(seqs)

    def test_events_carry_the_attempt_that_was_handed_out(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(7, "report", attempt=3, n=1)])
        events = self.collect(engine, ended(7))
        of_item = [event for event in events if isinstance(event, ItemStarted | ItemProgressed | ItemEnded)]
        assert {(event.worker, event.seq, event.attempt) for event in of_item} == {(worker, 7, 3)}
        assert len(of_item) == 3

    def test_times_of_events_are_on_the_engines_clock_and_in_order(self, start: Start) -> None:
        engine = start()
        before = engine.now()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, seconds=0.05), item(2)])
        events = self.collect(engine, ended(1, 2))
        times = [event.at for event in events]
        assert times == sorted(times)
        assert before <= times[0]
        assert times[-1] <= engine.now()
        first = of(ItemEnded, events)[0]
        assert first.outcome.seconds >= 0.04

    def test_a_failing_item_carries_its_error_and_the_worker_goes_on(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "raise", message="the moon is missing"), item(2, value=5)])
        first, second = of(ItemEnded, self.collect(engine, ended(1, 2)))
        assert first.outcome.state == "failed"
        assert "the moon is missing" in str(first.outcome.error)
        assert (second.outcome.state, second.outcome.metrics["value"]) == ("done", 5)

    def test_reports_arrive_in_order_between_start_and_end(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "report", n=5, seconds=0.05)])
        events = [event for event in self.collect(engine, ended(1)) if not isinstance(event, WorkerReady)]
        assert isinstance(events[0], ItemStarted)
        assert isinstance(events[-1], ItemEnded)
        reports = of(ItemProgressed, events[1:-1])
        assert [(event.step, event.metrics["value"]) for event in reports] == [(n, n) for n in range(5)]

    @pytest.mark.isolation
    def test_an_outcome_has_what_was_reported_under_what_was_returned(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "report", n=3), item(2, "report", n=3, hang=True)])
        events = self.collect(engine, heard(ItemProgressed, 6))
        engine.cancel(worker, 2, 0, "pruned", "not promising")
        events += self.collect(engine, ended(2))
        first, second = [event.outcome.metrics for event in of(ItemEnded, events)]
        assert first == {"value": 3, "last": 2}
        assert second == {"value": 2, "last": 2}

    def test_recall_returns_exactly_what_had_not_started_and_once(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "hang"), item(2), item(3, attempt=1), item(4)])
        self.collect(engine, heard(ItemStarted))
        engine.recall(worker)
        returned = of(ItemsReturned, self.collect(engine, heard(ItemsReturned)))
        assert [(event.worker, sorted(event.items)) for event in returned] == [
            (worker, [(2, 0), (3, 1), (4, 0)])
        ]
        engine.cancel(worker, 1, 0, "stopped", "enough")
        engine.submit(worker, [item(5)])
        events = self.collect(engine, ended(1, 5)) + quiet(engine, self.quiet_s)
        assert [event.seq for event in of(ItemStarted, events)] == [5]
        assert of(ItemsReturned, events) == []

    def test_recall_of_a_worker_without_items_returns_none(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        self.collect(engine, heard(WorkerReady))
        engine.recall(worker)
        assert of(ItemsReturned, self.collect(engine, heard(ItemsReturned)))[0].items == ()

    def test_each_item_of_a_busy_worker_is_either_returned_or_ended(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(seq, seconds=0.002) for seq in range(1, 101)])
        events = self.collect(engine, heard(ItemEnded, 3))
        engine.recall(worker)
        engine.end(worker)
        events += self.collect(engine, lost(worker))
        returned = [seq for event in of(ItemsReturned, events) for seq, _ in event.items]
        finished = [event.seq for event in of(ItemEnded, events)]
        assert returned, "nothing was returned"
        assert sorted(returned + finished) == list(range(1, 101)), "an item was forgotten, or came twice"
        assert of(WorkerLost, events)[0].cause == "ended"

    @pytest.mark.parametrize("state", ["stopped", "pruned", "failed"])
    def test_cancel_ends_a_running_item_as_asked_and_the_next_one_runs(
        self, start: Start, state: str
    ) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "hang"), item(2, value=2)])
        self.collect(engine, heard(ItemStarted))
        engine.cancel(worker, 1, 0, state, "no longer wanted")
        first, second = of(ItemEnded, self.collect(engine, ended(1, 2)))
        assert (first.seq, first.outcome.state, first.outcome.error) == (1, state, "no longer wanted")
        assert (second.seq, second.outcome.state) == (2, "done")

    def test_a_cancel_right_after_the_start_is_not_lost(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        for seq in range(1, 41):
            engine.submit(worker, [item(seq, "hang")])
            self.collect(engine, heard(ItemStarted))
            engine.cancel(worker, seq, 0, "stopped", "at once")
            assert of(ItemEnded, self.collect(engine, ended(seq)))[0].outcome.state == "stopped"

    def test_cancel_of_an_item_that_is_not_running_does_nothing(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1), item(2, seconds=0.3, attempt=1), item(3)])
        self.collect(engine, lambda events: 2 in {event.seq for event in of(ItemStarted, events)})
        engine.cancel(worker, 1, 0, "stopped", "it has ended")
        engine.cancel(worker, 2, 0, "stopped", "this was another attempt")
        engine.cancel(worker, 3, 0, "stopped", "it has not started")
        engine.cancel(worker, 9, 0, "stopped", "there is no such item")
        events = self.collect(engine, ended(2, 3))
        assert [(event.seq, event.outcome.state) for event in of(ItemEnded, events)] == [
            (2, "done"),
            (3, "done"),
        ]
