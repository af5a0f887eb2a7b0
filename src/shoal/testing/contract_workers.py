"""The engine contract about workers: each comes up or not, and goes exactly once, for a named reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.engine.base import Engine
from shoal.model import Event, FactsChanged, ItemEnded, ItemStarted, Need, WorkerLost, WorkerReady
from shoal.testing.contract_base import ContractBase, Start, item, scripted
from shoal.testing.events import ended, heard, lost, of, quiet

DEATHS = [
    pytest.param({"do": "exit", "status": 3}, id="exit 3"),
    pytest.param({"do": "exit", "status": 0}, id="exit 0"),
    pytest.param({"do": "signal", "name": "SIGKILL"}, id="SIGKILL"),
    pytest.param({"do": "signal", "name": "SIGSEGV"}, id="SIGSEGV"),
    pytest.param({"do": "babble"}, id="what is no message"),
]


class WorkerContract(ContractBase):
    """Inherited by `EngineContract`."""

    def lost_once(self, engine: Engine, worker: int) -> WorkerLost:
        """The one `WorkerLost` of a worker; waits a little for a second one."""
        events: list[Event] = self.collect(engine, lost(worker)) + quiet(engine, self.quiet_s)
        found = [event for event in of(WorkerLost, events) if event.worker == worker]
        assert len(found) == 1
        return found[0]

    @pytest.mark.isolation
    @pytest.mark.parametrize("death", DEATHS)
    def test_a_crash_names_the_running_item_and_starts_no_other(
        self, start: Start, death: dict[str, Any]
    ) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1), item(2, **death), item(3), item(4)])
        events = self.collect(engine, lost(worker)) + quiet(engine, self.quiet_s)
        gone = of(WorkerLost, events)
        assert [(event.cause, event.running) for event in gone] == [("crash", (2, 0))]
        assert gone[0].why
        assert [event.seq for event in of(ItemStarted, events)] == [1, 2]
        assert [event.seq for event in of(ItemEnded, events)] == [1]

    def test_a_worker_without_room_goes_and_says_so(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1), item(2, "leave"), item(3)])
        events = self.collect(engine, lost(worker)) + quiet(engine, self.quiet_s)
        gone = [(event.cause, event.why, event.running) for event in of(WorkerLost, events)]
        assert gone == [("room", "told to leave", (2, 0))]
        assert [event.seq for event in of(ItemEnded, events)] == [1]

    def test_a_worker_that_is_of_no_use_any_more_counts_as_crashed_and_says_why(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1), item(2, "break"), item(3)])
        events = self.collect(engine, lost(worker)) + quiet(engine, self.quiet_s)
        gone = [(event.cause, event.why, event.running) for event in of(WorkerLost, events)]
        assert gone == [("crash", "told to break", (2, 0))]
        assert [event.seq for event in of(ItemEnded, events)] == [1]

    @pytest.mark.isolation
    def test_a_crash_leaves_other_workers_alone(self, start: Start) -> None:
        engine = start()
        first, second = self.worker(engine), self.worker(engine)
        engine.submit(first, [item(1, "exit")])
        engine.submit(second, [item(2, seconds=0.2), item(3)])
        events = self.collect(engine, lambda events: ended(2, 3)(events) and lost(first)(events))
        assert [event.worker for event in of(WorkerLost, events)] == [first]

    @pytest.mark.isolation
    def test_the_place_of_a_lost_worker_is_free_again(self, start: Start) -> None:
        engine = start()
        crashing, _ = self.worker(engine), self.worker(engine)
        engine.submit(crashing, [item(1, "exit")])
        self.collect(engine, lost(crashing))
        engine.submit(self.worker(engine), [item(2)])
        self.collect(engine, ended(2))

    @pytest.mark.isolation
    def test_a_stubborn_item_does_not_end_until_its_worker_is_killed(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "stubborn"), item(2)])
        self.collect(engine, heard(ItemStarted))
        quiet(engine, 0.2)  # it has to get as far as being stubborn
        engine.cancel(worker, 1, 0, "stopped", "please")
        assert of(ItemEnded, quiet(engine, self.quiet_s)) == []
        engine.kill(worker)
        gone = self.lost_once(engine, worker)
        assert (gone.cause, gone.running) == ("killed", (1, 0))

    def test_kill_of_an_idle_worker_blames_no_item(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1)])
        self.collect(engine, ended(1))
        engine.kill(worker)
        gone = self.lost_once(engine, worker)
        assert (gone.cause, gone.running) == ("killed", None)

    @pytest.mark.isolation
    def test_a_worker_can_be_killed_while_it_starts(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine, start_s=600)
        engine.submit(worker, [item(1)])
        quiet(engine, 0.05)
        engine.kill(worker)
        gone = self.lost_once(engine, worker)
        assert (gone.cause, gone.running) == ("killed", None)

    def test_end_lets_the_worker_finish_what_it_has(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, seconds=0.1), item(2)])
        engine.end(worker)
        engine.end(worker)
        events = self.collect(engine, lost(worker))
        assert [event.seq for event in of(ItemEnded, events)] == [1, 2]
        assert [(event.cause, event.running) for event in of(WorkerLost, events)] == [("ended", None)]
        assert isinstance(events[-1], WorkerLost)

    def test_a_worker_is_lost_exactly_once_whatever_is_asked_of_it(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(1, "hang")])
        self.collect(engine, heard(ItemStarted))
        engine.end(worker)
        engine.kill(worker)
        engine.kill(worker)
        assert self.lost_once(engine, worker).cause == "killed"

    def test_a_lost_worker_ignores_everything(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.kill(worker)
        self.lost_once(engine, worker)
        engine.submit(worker, [item(1)])
        engine.recall(worker)
        engine.cancel(worker, 1, 0, "stopped", "too late")
        engine.end(worker)
        engine.kill(worker)
        assert quiet(engine, self.quiet_s) == []

    def test_a_failing_start_is_a_loss_with_the_cause_start_and_the_reason(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine, fail_start=True)
        engine.submit(worker, [item(1)])
        events = self.collect(engine, lost(worker)) + quiet(engine, self.quiet_s)
        gone = of(WorkerLost, events)
        assert [(event.cause, event.running) for event in gone] == [("start", None)]
        assert "the factory was told to fail" in gone[0].why
        assert of(ItemStarted, events) == []
        assert of(WorkerReady, events) == []

    def test_a_worker_says_facts_of_itself_when_it_is_ready_and_when_they_change(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine, facts={"port": 1})
        [ready] = of(WorkerReady, self.collect(engine, heard(WorkerReady)))
        assert (ready.facts["port"], list(ready.facts["devices"])) == (1, [])
        assert ready.facts["pid"] > 0
        assert ready.facts["address"]
        engine.submit(worker, [item(1), item(2, "tell", facts={"port": 2}), item(3)])
        events = self.collect(engine, ended(1, 2, 3))
        [changed] = of(FactsChanged, events)
        assert (changed.worker, changed.facts) == (worker, {**ready.facts, "port": 2})
        ends = [event.seq for event in of(ItemEnded, events[: events.index(changed)])]
        assert ends == [1], "before the end of the item that changed them"

    def test_a_worker_has_the_environment_of_its_factory(self, start: Start) -> None:
        engine = start()
        factory = scripted()._replace(env={"SHOAL_CONTRACT": "a b$c"})
        engine.submit(engine.spawn(factory, self.place(engine)), [item(1, "env", name="SHOAL_CONTRACT")])
        assert of(ItemEnded, self.collect(engine, ended(1)))[0].outcome.metrics["value"] == "a b$c"

    def test_a_worker_has_the_content_of_the_blob_of_its_factory(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "blob").write_text("something large")
        engine = start()
        factory = scripted()._replace(blob=str(tmp_path / "blob"))
        engine.submit(engine.spawn(factory, self.place(engine)), [item(1, "blob")])
        [end] = of(ItemEnded, self.collect(engine, ended(1)))
        assert end.outcome.metrics == {"value": "something large"}

    def test_wait_returns_nothing_when_its_time_is_up(self, start: Start) -> None:
        engine = start()
        before = engine.now()
        assert list(engine.wait(0.05)) == []
        assert engine.now() >= before + 0.04

    def test_the_clock_never_goes_back(self, start: Start) -> None:
        engine = start()
        worker = self.worker(engine)
        engine.submit(worker, [item(seq, seconds=0.001) for seq in range(1, 21)])
        times = [engine.now()]
        done = 0
        while done < 20:
            done += len(of(ItemEnded, engine.wait(0.05)))
            times.append(engine.now())
            assert times[-1] < times[0] + self.patience_s
        assert times == sorted(times)

    @pytest.mark.isolation
    def test_close_may_be_called_twice_and_leaves_nothing(self, start: Start) -> None:
        engine = start()
        busy, starting = self.worker(engine), self.worker(engine, start_s=600)
        engine.submit(busy, [item(1, "stubborn"), item(2)])
        engine.submit(starting, [item(3)])
        self.collect(engine, heard(ItemStarted))
        assert engine.reserve([Need()], None).places == ()
        engine.close()
        engine.close()
        assert list(self.leftovers(engine)) == []
        assert list(engine.wait(0.0)) == []
