"""The engine contract about places: reservations, devices, and leases that drivers share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.engine.base import Engine
from shoal.errors import CannotPlace
from shoal.model import Event, Granted, ItemEnded, LeaseRecalled, Need, Node, Refused, WorkerReady
from shoal.testing.contract_base import GIB, ContractBase, Start, item, scripted
from shoal.testing.events import POLL_S, ended, heard, lost, of, quiet

ALPHA = Node("alpha", cpu=2, memory_bytes=4 * GIB, labels={"tier": "cloud"})
BETA = Node("beta", cpu=4, memory_bytes=2 * GIB, gpu=2, labels={"tier": "edge", "location": "home"})


class PlaceContract(ContractBase):
    """Inherited by `EngineContract`."""

    def test_the_nodes_are_those_it_was_made_with(self, start: Start) -> None:
        engine = start(ALPHA, BETA)
        seen = {node.host: (node.cpu, node.gpu, dict(node.labels)) for node in engine.nodes()}
        assert seen == {node.host: (node.cpu, node.gpu, dict(node.labels)) for node in (ALPHA, BETA)}

    @pytest.mark.parametrize(
        ("need", "count"),
        [
            pytest.param(Need(cpu=1), 6, id="cpu"),
            pytest.param(Need(cpu=0.5), 12, id="half a cpu"),
            pytest.param(Need(cpu=3), 1, id="only on the larger node"),
            pytest.param(Need(cpu=1, memory_bytes=GIB), 4, id="memory"),
            pytest.param(Need(cpu=1, gpu=1), 2, id="gpu"),
            pytest.param(Need(cpu=1, labels={"tier": "cloud"}), 2, id="label"),
            pytest.param(Need(cpu=1, node="beta"), 4, id="node"),
            pytest.param(Need(cpu=8), 0, id="none"),
        ],
    )
    def test_capacity_counts_what_empty_nodes_hold(self, start: Start, need: Need, count: int) -> None:
        engine = start(ALPHA, BETA)
        assert engine.capacity(need) == count
        if count:
            assert len(engine.reserve([need] * count, self.patience_s).places) == count
            assert engine.capacity(need) == count

    def test_places_respect_labels_and_pins(self, start: Start) -> None:
        engine = start(ALPHA, BETA)
        needs = [Need(labels={"tier": "cloud"}), Need(node="beta"), Need(labels={"location": "home"})]
        places = engine.reserve(needs, self.patience_s).places
        assert [place.host for place in places] == ["alpha", "beta", "beta"]
        assert [place.need for place in places] == needs
        assert len({place.id for place in places}) == 3

    @pytest.mark.parametrize(
        "need",
        [
            pytest.param(Need(cpu=64), id="cpu"),
            pytest.param(Need(gpu=3), id="gpu"),
            pytest.param(Need(memory_bytes=64 * GIB), id="memory"),
            pytest.param(Need(labels={"tier": "moon"}), id="label"),
            pytest.param(Need(node="gamma"), id="node"),
        ],
    )
    def test_what_can_never_fit_is_refused_at_once_with_each_nodes_reason(
        self, start: Start, need: Need
    ) -> None:
        engine = start(ALPHA, BETA)
        with pytest.raises(CannotPlace, match=r"alpha: .*beta: "):
            engine.reserve([need], None)

    def test_more_workers_than_empty_nodes_hold_are_refused_at_once(self, start: Start) -> None:
        engine = start(ALPHA)
        with pytest.raises(CannotPlace):
            engine.reserve([Need()] * 3, None)

    def test_a_reservation_gets_all_its_places_or_none(self, start: Start) -> None:
        engine = start(ALPHA)
        held = self.place(engine)
        both = engine.reserve([Need(), Need()], None)
        assert both.places == ()
        assert quiet(engine, self.quiet_s) == []
        engine.release(held)
        granted = of(Granted, self.collect(engine, heard(Granted)))
        assert [(event.reservation, len(event.places)) for event in granted] == [(both.id, 2)]

    def test_a_pending_reservation_is_granted_when_a_worker_goes(self, start: Start) -> None:
        engine = start(ALPHA)
        first, _ = self.worker(engine), self.worker(engine)
        pending = engine.reserve([Need()], None)
        assert pending.places == ()
        engine.end(first)
        events = self.collect(engine, lambda events: heard(Granted)(events) and lost(first)(events))
        granted = of(Granted, events)[0]
        assert granted.reservation == pending.id
        engine.submit(engine.spawn(scripted(), granted.places[0]), [item(1)])
        self.collect(engine, ended(1))

    def test_a_pending_reservation_is_refused_at_its_deadline(self, start: Start) -> None:
        engine = start(ALPHA)
        held = [self.place(engine), self.place(engine)]
        before = engine.now()
        pending = engine.reserve([Need()], 0.2)
        refused = of(Refused, self.collect(engine, heard(Refused)))[0]
        assert refused.reservation == pending.id
        assert refused.why
        assert refused.at >= before + 0.19
        engine.release(held[0])
        assert quiet(engine, self.quiet_s) == []

    def test_nothing_more_is_heard_of_a_cancelled_reservation(self, start: Start) -> None:
        engine = start(ALPHA)
        held = [self.place(engine), self.place(engine)]
        pending = engine.reserve([Need()], 0.2)
        engine.cancel_reservation(pending.id)
        engine.cancel_reservation(pending.id)
        engine.release(held[0])
        assert quiet(engine, self.quiet_s) == []
        self.place(engine)

    def test_cancelling_a_granted_reservation_takes_nothing_away(self, start: Start) -> None:
        engine = start(ALPHA)
        granted = engine.reserve([Need(), Need()], None)
        engine.cancel_reservation(granted.id)
        assert engine.reserve([Need()], None).places == ()

    def test_a_released_place_can_be_had_again(self, start: Start) -> None:
        engine = start(ALPHA)
        first, _ = self.place(engine), self.place(engine)
        engine.release(first)
        self.place(engine)

    def test_devices_belong_to_one_worker_at_a_time(self, start: Start) -> None:
        engine = start(BETA)
        places = engine.reserve([Need(gpu=1), Need(gpu=1)], self.patience_s).places
        workers = [engine.spawn(scripted(), place) for place in places]
        for seq, worker in enumerate(workers, 1):
            engine.submit(worker, [item(seq, "env", name="CUDA_VISIBLE_DEVICES")])
        seen = {event.worker: event.outcome for event in of(ItemEnded, self.collect(engine, ended(1, 2)))}
        devices = [seen[worker].metrics["value"] for worker in workers]
        assert sorted(devices) == ["0", "1"]
        if places[0].devices or places[1].devices:
            assert [place.devices for place in places] == [(device,) for device in devices]
        engine.end(workers[0])
        self.collect(engine, lost(workers[0]))
        again = engine.spawn(scripted(), self.place(engine, gpu=1))
        engine.submit(again, [item(3, "env", name="CUDA_VISIBLE_DEVICES")])
        [event] = of(ItemEnded, self.collect(engine, ended(3)))
        assert event.outcome.metrics["value"] == devices[0]

    def test_a_driver_above_its_share_is_asked_to_give_back(self, two: tuple[Engine, Engine]) -> None:
        first, second = two
        workers = {self.worker(first), self.worker(first)}
        pending = second.reserve([Need()], None)
        assert pending.places == ()
        recalled = of(LeaseRecalled, self.collect(first, heard(LeaseRecalled)))
        assert {event.worker for event in recalled} < workers
        assert len(recalled) == 1
        first.end(recalled[0].worker)
        granted = self.alternate(first, second, heard(Granted))
        assert of(Granted, granted)[0].reservation == pending.id
        second.submit(second.spawn(scripted(), of(Granted, granted)[0].places[0]), [item(1)])
        self.alternate(first, second, ended(1))

    def test_what_a_closed_driver_held_goes_to_the_other(self, two: tuple[Engine, Engine]) -> None:
        first, second = two
        self.worker(first)
        self.worker(first)
        both = second.reserve([Need(), Need()], None)
        assert both.places == ()
        first.close()
        granted = of(Granted, self.collect(second, heard(Granted)))[0]
        assert (granted.reservation, len(granted.places)) == (both.id, 2)

    def test_places_that_stand_together_are_on_few_nodes(self, start: Start) -> None:
        engine = start(ALPHA, BETA)
        hosts = [
            {place.host for place in engine.reserve([Need()] * count, None, together=True).places}
            for count in (2, 4)
        ]
        assert hosts == [{"alpha"}, {"beta"}]

    def test_workers_leave_for_a_reservation_that_stands_together_down_to_the_last(
        self, two: tuple[Engine, Engine]
    ) -> None:
        first, second = two
        workers = {self.worker(first), self.worker(first)}
        both = second.reserve([Need(), Need()], None, together=True)
        assert both.places == ()
        recalled = of(LeaseRecalled, self.collect(first, lambda events: len(of(LeaseRecalled, events)) == 2))
        assert {event.worker for event in recalled} == workers
        back = first.reserve([Need()], None)
        for worker in workers:
            first.end(worker)
        [granted] = of(Granted, self.alternate(first, second, heard(Granted)))
        assert (granted.reservation, len(granted.places)) == (both.id, 2)
        gang = [second.spawn(scripted(), place) for place in granted.places]
        self.collect(second, lambda events: len(of(WorkerReady, events)) == 2)
        heard_by_both = self.alternate(second, first, lambda events: len(events) > 2, self.quiet_s)
        assert of(Granted, heard_by_both) == [], "the place is held firmly"
        assert of(LeaseRecalled, quiet(second, self.quiet_s)) == []
        for worker in gang:
            second.end(worker)
        [again] = of(Granted, self.alternate(second, first, heard(Granted)))
        assert again.reservation == back.id

    def test_those_that_stand_together_are_served_in_line_and_others_behind_them(
        self, two: tuple[Engine, Engine]
    ) -> None:
        first, second = two
        held = self.place(first)
        both = second.reserve([Need(), Need()], None, together=True)
        one = first.reserve([Need()], None, together=True)
        more = first.reserve([Need()], None)
        assert both.places == one.places == more.places == ()
        assert of(Granted, self.alternate(second, first, heard(Granted), self.quiet_s)) == []
        first.release(held)
        [granted] = of(Granted, self.alternate(first, second, heard(Granted)))
        assert granted.reservation == both.id
        for place in granted.places:
            second.release(place)
        rest = self.alternate(second, first, lambda events: len(of(Granted, events)) == 2)
        assert [event.reservation for event in of(Granted, rest)] == [one.id, more.id]

    def test_what_is_kept_for_the_first_in_line_is_lent_to_what_ends_before_it_could_start(
        self, two: tuple[Engine, Engine]
    ) -> None:
        first, second = two
        assert first.reserve([Need()], None, together=True, lasts_s=60.0).places
        assert second.reserve([Need(), Need()], None, together=True).places == ()
        assert first.reserve([Need()], 0.0).places == ()
        assert first.reserve([Need()], 0.0, lasts_s=90.0).places == ()
        [lent] = first.reserve([Need()], None, lasts_s=30.0).places
        assert lent.lent
        worker = first.spawn(scripted(), lent)
        self.collect(first, heard(WorkerReady))
        told = self.alternate(second, first, lambda events: False, self.quiet_s)
        assert of(LeaseRecalled, told) == [], "it goes by itself"
        first.end(worker)

    def test_what_is_kept_is_lent_until_a_recalled_worker_is_expected_to_be_gone(
        self, two: tuple[Engine, Engine]
    ) -> None:
        first, second = two
        held = self.place(first)
        first.spawn(scripted(), held)
        self.collect(first, heard(WorkerReady))
        assert second.reserve([Need(), Need()], None, together=True).places == ()
        self.alternate(second, first, heard(LeaseRecalled))
        short = first.reserve([Need()], None, lasts_s=30.0)
        assert short.places == (), "nobody knows when the worker will be gone"
        first.expect_release(held, 60.0)
        [granted] = of(Granted, self.alternate(second, first, heard(Granted)))
        assert (granted.reservation, granted.places[0].lent) == (short.id, True)

    def alternate(
        self,
        first: Engine,
        second: Engine,
        until: Callable[[list[Event]], bool],
        quiet_s: float | None = None,
    ) -> list[Event]:
        """What the second engine hears while both are waited on in turn; for no longer than `quiet_s` if given."""
        events: list[Event] = []
        give_up = second.now() + (self.patience_s if quiet_s is None else quiet_s)
        while not until(events):
            if second.now() >= give_up:
                assert quiet_s is not None, f"it did not come; heard {events}"
                break
            first.wait(POLL_S / 10)
            events.extend(second.wait(POLL_S / 10))
        return events
