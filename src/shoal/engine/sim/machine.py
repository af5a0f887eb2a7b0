"""Simulated machines and the workers on them: what really happens, whether or not a driver hears of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from shoal.engine.sim.clock import Clock
from shoal.engine.sim.driver import Driver
from shoal.engine.sim.faults import Duplicate, Late
from shoal.engine.sim.records import Behaviour, Gone, Model, Ran, Startup
from shoal.model import (
    Event,
    Factory,
    FactsChanged,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    LostCause,
    Node,
    Outcome,
    Place,
    WorkerReady,
)


class Machine:
    """One node: reachable, cut off or dead; and whether drivers still believe in it."""

    def __init__(
        self,
        node: Node,
        clock: Clock,
        model: Model,
        send: Callable[[Worker, Event | Gone], None],
        history: list[Ran] | None,
    ) -> None:
        self.node = node
        self.clock = clock
        self.model = model
        self.send = send
        self.history = history
        self.known = True
        self.dead = False
        self.cut = False
        self.incident = 0
        """Counts deaths and cuts, so that what was scheduled for an earlier one does nothing."""
        self.incarnation = 0
        """Changes when all that ran here is gone, so that commands still on their way reach nobody."""
        self.workers: dict[int, Worker] = {}
        self.held_answers: list[tuple[Worker, Event | Gone]] = []
        self.held_commands: list[tuple[Worker, Callable[..., None], tuple[Any, ...]]] = []
        self.speed = node.speed
        self._slowness: list[float] = []

    def slow_down(self, factor: float) -> None:
        self._slowness.append(factor)
        self._retime()

    def recover(self, factor: float) -> None:
        self._slowness.remove(factor)
        self._retime()

    def _retime(self) -> None:
        before = self.speed
        self.speed = self.node.speed / prod(self._slowness)
        for worker in self.workers.values():
            worker.retime(before)

    def wipe(self) -> None:
        """Every worker here is gone, and nobody is told."""
        self.incarnation += 1
        for worker in list(self.workers.values()):
            worker.vanish()


class Worker:
    """One worker process. Its methods are what happens when a command arrives, or when time has passed."""

    __slots__ = (
        "_behaviour", "_done", "_ending", "_item", "_queue", "_ready", "_reports", "_since", "_spawned",
        "_started", "_token", "alive", "arrival", "disturbances", "driver", "factory", "id", "machine",
        "place", "reached",
    )  # fmt: skip

    def __init__(self, number: int, driver: Driver, machine: Machine, place: Place, factory: Factory) -> None:
        self.id = number
        self.driver = driver
        self.machine = machine
        self.place = place
        self.factory = factory
        self.alive = True
        self.arrival = self.reached = 0.0
        """When the last answer arrives at the driver, and the last command here: neither overtakes."""
        self.disturbances: list[Late | Duplicate] = []
        self._queue: deque[Item] = deque()
        self._ready = self._ending = False
        self._item: Item | None = None
        self._behaviour = Behaviour(0.0)
        self._started = self._since = self._done = self._spawned = 0.0
        self._reports = 0
        self._token = 0
        """Changes with every plan for the future, so that timers of an older plan do nothing."""

    def start(self, startup: Startup) -> None:
        if not self.alive:
            return
        if not self.driver.present:
            self.die(LostCause.ENDED, "Its driver is gone.")
            return
        self.machine.workers[self.id] = self
        self._spawned = self.machine.clock.now
        self._after(startup.seconds, self._come_up, startup)

    def submit(self, items: tuple[Item, ...]) -> None:
        if self.alive and not self._ending:
            self._queue.extend(items)
            self._next()

    def recall(self) -> None:
        if self.alive:
            returned = tuple((item.seq, item.attempt) for item in self._queue)
            self._queue.clear()
            self._send(ItemsReturned(self.id, returned, self.machine.clock.now))

    def cancel(self, seq: int, attempt: int, state: str, why: str) -> None:
        item = self._item
        if item is None or (item.seq, item.attempt) != (seq, attempt) or self._behaviour.ignores_cancel:
            return
        self._end_item(state, {}, why)

    def end(self) -> None:
        if self.alive:
            self._ending = True
            self._next()

    def die(self, cause: LostCause, why: str) -> None:
        """The process ends; the node says so."""
        if self.alive:
            self.vanish()
            self._send(Gone(cause, why, self.machine.clock.now))

    def fall(self) -> None:
        """It dies by itself; before it is ready, that counts as a failed start."""
        cause = LostCause.CRASH if self._ready else LostCause.START
        self.die(cause, "The worker was killed by signal 9.")

    def vanish(self) -> None:
        self.alive = False
        self._token += 1
        self.machine.workers.pop(self.id, None)
        if self._item is not None:
            self._record(self._item, "lost")
            self._item = None

    def retime(self, speed_before: float) -> None:
        """The machine's speed has changed: the rest of the running item takes another time than planned."""
        if self._item is not None:
            now = self.machine.clock.now
            self._done += (now - self._since) * speed_before
            self._since = now
            self._plan()

    def _come_up(self, token: int, startup: Startup) -> None:
        if token != self._token:
            return
        if startup.error is not None:
            self.die(LostCause.START, startup.error)
            return
        self._ready = True
        now = self.machine.clock.now
        self._send(WorkerReady(self.id, now, now - self._spawned, self._facts(startup.facts)))
        self._next()

    def _facts(self, said: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "pid": self.id,
            "address": self.machine.node.host,
            "devices": list(self.place.devices),
            **said,
        }

    def _next(self) -> None:
        if self._item is not None or not self._ready:
            return
        if self._queue:
            self._begin(self._queue.popleft())
        elif self._ending:
            self.die(LostCause.ENDED, "It was asked to end.")

    def _begin(self, item: Item) -> None:
        self._item = item
        self._behaviour = self.machine.model(self.factory, item)
        self._started = self._since = self.machine.clock.now
        self._done = 0.0
        self._reports = 0
        self._send(ItemStarted(self.id, item.seq, item.attempt, self._started))
        self._plan()

    def _plan(self) -> None:
        """Set the timer for the next report, or for the end."""
        behaviour = self._behaviour
        self._token += 1
        if self._reports < len(behaviour.reports):
            self._after(behaviour.reports[self._reports][0] * behaviour.seconds - self._done, self._report)
        elif not behaviour.hang:
            self._after(behaviour.seconds - self._done, self._finish)

    def _after(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        clock = self.machine.clock
        delay = seconds / self.machine.speed if seconds > 0 else 0.0
        clock.at(clock.now + delay, action, self._token, *arguments)

    def _report(self, token: int) -> None:
        item = self._item
        if token != self._token or item is None:
            return
        fraction, metrics, step = self._behaviour.reports[self._reports]
        self._reports += 1
        self._done = max(self._done, fraction * self._behaviour.seconds)
        self._since = self.machine.clock.now
        self._send(ItemProgressed(self.id, item.seq, item.attempt, self._since, metrics, step))
        self._plan()

    def _finish(self, token: int) -> None:
        if token != self._token:
            return
        behaviour = self._behaviour
        if behaviour.crash:
            self.die(LostCause.CRASH, behaviour.error or "The worker was killed by signal 11.")
        elif behaviour.leaves:
            self.die(LostCause.ROOM, behaviour.error or "There is no room for it beside the others.")
        else:
            self._end_item(behaviour.outcome_state, behaviour.metrics, behaviour.error)

    def _end_item(self, state: str, metrics: Mapping[str, Any], error: str | None) -> None:
        """What it reported counts too, under what it returned."""
        item = self._item
        assert item is not None
        now = self.machine.clock.now
        self._token += 1
        self._record(item, state)
        self._item = None
        told = self._behaviour.reports[: self._reports]
        if told:
            metrics = {**{name: value for _, said, _ in told for name, value in said.items()}, **metrics}
        if self._behaviour.facts is not None:
            self._send(FactsChanged(self.id, now, self._facts(self._behaviour.facts)))
        outcome = Outcome(state, metrics, error, now - self._started)
        self._send(ItemEnded(self.id, item.seq, item.attempt, now, outcome))
        self._next()

    def _record(self, item: Item, state: str) -> None:
        machine = self.machine
        if machine.history is not None:
            host, now = machine.node.host, machine.clock.now
            ran = Ran(self.driver.key, self.id, host, item.seq, item.attempt, self._started, now, state)
            machine.history.append(ran)

    def _send(self, message: Event | Gone) -> None:
        self.machine.send(self, message)
