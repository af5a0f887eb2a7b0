"""The way between drivers and workers: it takes time, keeps the order of messages, and can be cut."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from shoal.engine.sim.clock import Clock
from shoal.engine.sim.faults import Late
from shoal.engine.sim.machine import Machine, Worker
from shoal.engine.sim.records import Gone
from shoal.model import Event, FactsChanged, ItemsReturned, WorkerReady


class Network:
    """What left before a cut still arrives; what is sent during it is held until the node comes back."""

    def __init__(self, clock: Clock, random: Random, latency_s: float, jitter_s: float) -> None:
        self._clock = clock
        self._random = random
        self._latency_s = latency_s
        self._jitter_s = jitter_s
        self.arrived: Callable[[Worker, Event | Gone], None] = lambda worker, message: None
        """Who takes what arrives on the drivers' side; set by the cluster."""

    def answer(self, worker: Worker, message: Event | Gone) -> None:
        """A worker, or its node, sends something to the driver."""
        machine = worker.machine
        if machine.cut:
            machine.held_answers.append((worker, message))
            return
        when = worker.arrival = max(worker.arrival, self._clock.now + self._delay_s())
        if worker.disturbances:
            self._disturb(worker, message, when)
        else:
            self._clock.at(when, self.arrived, worker, message)

    def command(self, worker: Worker, action: Callable[..., None], *arguments: Any) -> None:
        """A driver asks something of a worker; a dead node does not hear it."""
        machine = worker.machine
        if machine.cut:
            machine.held_commands.append((worker, action, arguments))
        elif not machine.dead:
            when = worker.reached = max(worker.reached, self._clock.now + self._delay_s())
            self._clock.at(when, self._reach, machine, machine.incarnation, action, arguments)

    def reconnect(self, machine: Machine) -> None:
        """What was held goes on its way, in order."""
        machine.cut = False
        answers, machine.held_answers = machine.held_answers, []
        for worker, message in answers:
            self.answer(worker, message)
        commands, machine.held_commands = machine.held_commands, []
        for worker, action, arguments in commands:
            self.command(worker, action, *arguments)

    def _delay_s(self) -> float:
        if self._jitter_s:
            return self._latency_s + self._random.random() * self._jitter_s
        return self._latency_s

    def _reach(
        self, machine: Machine, incarnation: int, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        if machine.incarnation == incarnation:
            action(*arguments)

    def _disturb(self, worker: Worker, message: Event | Gone, when: float) -> None:
        """Let the next message that a fault is meant for come late, or twice."""
        fault = worker.disturbances[0]
        late = isinstance(fault, Late)
        if isinstance(message, Gone | WorkerReady | FactsChanged) or (
            isinstance(message, ItemsReturned) and not late
        ):
            self._clock.at(when, self.arrived, worker, message)
            return
        worker.disturbances.pop(0)
        if isinstance(fault, Late):
            self._clock.at(when + fault.by_s, self.arrived, worker, message)
        else:
            self._clock.at(when, self.arrived, worker, message)
            self._clock.at(when + fault.after_s, self.arrived, worker, message)
