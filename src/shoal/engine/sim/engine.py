"""One driver's connection to a simulated cluster: the `Engine` contract on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.engine.base import Reservation
from shoal.engine.sim.cluster import Cluster
from shoal.engine.sim.driver import Driver
from shoal.engine.sim.faults import DriverCrashed
from shoal.engine.sim.machine import Worker
from shoal.model import Event, Factory, Item, Need, Node, Place


class SimEngine:
    """Only `wait` lets time pass. Once its driver crashed, every call but `close` raises `DriverCrashed`."""

    name = "sim"
    latency_s = 0.0
    stagger_s = 0.0

    def __init__(self, cluster: Cluster, driver: Driver, crash_after_calls: int | None = None) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._arbiter = cluster.arbiter
        self.driver = driver
        self._calls_left = crash_after_calls
        self._workers: dict[int, Worker] = {}

    def nodes(self) -> Sequence[Node]:
        self._called()
        return self._cluster.nodes()

    def capacity(self, need: Need) -> int:
        self._called()
        return self._arbiter.capacities.of(need, self._cluster.nodes())

    def reserve(
        self,
        needs: Sequence[Need],
        deadline_s: float | None,
        *,
        together: bool = False,
        lasts_s: float | None = None,
    ) -> Reservation:
        self._called()
        return self._arbiter.request(self.driver, tuple(needs), deadline_s, together, lasts_s)

    def cancel_reservation(self, reservation: int) -> None:
        self._called()
        self._arbiter.cancel(self.driver, reservation)

    def release(self, place: Place) -> None:
        self._called()
        if self._arbiter.owners.get(place.id) is self.driver and place.id not in self._arbiter.workers:
            self._arbiter.free(place)

    def expect_release(self, place: Place, seconds: float) -> None:
        self._called()
        self._arbiter.expect(self.driver, place, seconds)

    def spawn(self, factory: Factory, place: Place) -> int:
        self._called()
        worker = self._cluster.spawn(self.driver, factory, place)
        self._workers[worker.id] = worker
        return worker.id

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        self._called()
        if worker in self.driver.workers:
            self.driver.handed(worker, items)
            self._command(worker, Worker.submit, tuple(items))

    def recall(self, worker: int) -> None:
        self._called()
        self._command(worker, Worker.recall)

    def cancel(self, worker: int, seq: int, attempt: int, state: str, why: str) -> None:
        self._called()
        self._command(worker, Worker.cancel, seq, attempt, state, why)

    def end(self, worker: int) -> None:
        self._called()
        self._command(worker, Worker.end)

    def kill(self, worker: int) -> None:
        self._called()
        self._command(worker, Worker.die, "killed", "It was killed on request.")

    def wait(self, timeout_s: float) -> Sequence[Event]:
        self._called()
        driver = self.driver
        if not driver.inbox:
            self._cluster.waiting = driver
            try:
                self._clock.advance(self._clock.now + max(0.0, timeout_s), driver.inbox)
            finally:
                self._cluster.waiting = None
        events, driver.inbox = driver.inbox, []
        return events

    def now(self) -> float:
        self._called()
        return self._clock.now

    def close(self) -> None:
        if self.driver.present:
            self._cluster.close(self.driver)

    def _command(self, worker: int, action: Callable[..., None], *arguments: Any) -> None:
        """A lost worker hears nothing."""
        if worker in self.driver.workers:
            target = self._workers[worker]
            self._cluster.network.command(target, action, target, *arguments)
        else:
            self._workers.pop(worker, None)

    def _called(self) -> None:
        """Die here if this is the call at which the driver was to crash."""
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left < 0 and self.driver.present:
                self._cluster.crash(self.driver)
        if self.driver.crashed:
            raise DriverCrashed
