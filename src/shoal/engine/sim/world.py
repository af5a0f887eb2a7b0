"""The public face of the simulation: a world with nodes, and faults on its clock, to which drivers connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from random import Random

from shoal.engine.sim.clock import Clock
from shoal.engine.sim.cluster import Cluster
from shoal.engine.sim.engine import SimEngine
from shoal.engine.sim.faults import (
    DriverCrashed,
    DriverCrashes,
    Duplicate,
    Fault,
    Late,
    NodeCutOff,
    NodeDies,
    SlowNode,
    WorkerDies,
)
from shoal.engine.sim.network import Network
from shoal.engine.sim.records import Leftovers, Model, Ran, StartModel, Trace, usual_start
from shoal.errors import EngineError, unknown
from shoal.model import Node


class SimWorld:
    """Nodes, workers and virtual time; they outlive the drivers. The same arguments give the same events.

    `latency_s`, plus up to `jitter_s`, is the time of one message. A node silent for `detect_s` is given up
    for lost; workers of a dead driver end within `linger_s`. Past `limit_s` virtual seconds `wait` raises, so
    that a driver without progress is seen. With `record`, `trace` and `history` keep what was heard and ran.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        model: Model,
        seed: int = 0,
        faults: Iterable[Fault] = (),
        *,
        startup: StartModel = usual_start,
        latency_s: float = 0.0005,
        jitter_s: float = 0.0,
        detect_s: float = 5.0,
        linger_s: float = 1.0,
        began: float = 0.0,
        limit_s: float = inf,
        record: bool = False,
    ) -> None:
        random = Random(seed)
        clock = Clock(began, limit_s)
        self._cluster = Cluster(
            nodes,
            model,
            startup,
            clock=clock,
            network=Network(clock, random, latency_s, jitter_s),
            random=random,
            detect_s=detect_s,
            linger_s=linger_s,
            record=record,
        )
        inject(self._cluster, faults)

    def connect(
        self,
        name: str = "driver",
        *,
        weight: float = 1.0,
        inherit: SimEngine | None = None,
        crash_after_calls: int | None = None,
    ) -> SimEngine:
        """A driver's engine. With `inherit` it goes on for a crashed one, and hears what still comes for it.

        With `crash_after_calls` it dies in its N+1st call of the engine, whatever the time.
        """
        driver = self._cluster.enter(name, weight)
        if inherit is not None:
            if not inherit.driver.crashed:
                raise EngineError(f"Driver {inherit.driver.key} has not crashed: nothing can be inherited.")
            inherit.driver.heir = driver
        return SimEngine(self._cluster, driver, crash_after_calls)

    def crash(self, engine: SimEngine) -> None:
        """That driver dies now, as by `kill -9`; a closed or crashed one stays as it is."""
        if engine.driver.present:
            self._cluster.crash(engine.driver)

    def pass_time(self, seconds: float) -> None:
        """Let time go by in which no driver does anything: they sleep, or wait for a disk."""
        self._cluster.clock.advance(self.now() + seconds, ())

    def settle(self) -> None:
        """Let everything happen that is bound to happen: cuts end, messages arrive, orphans notice."""
        self._cluster.clock.drain()

    def now(self) -> float:
        return self._cluster.clock.now

    @property
    def trace(self) -> Trace:
        """(when, driver, event) for all that arrived anywhere."""
        if self._cluster.trace is None:
            raise EngineError("The world keeps no trace.", hint="Make it with record=True.")
        return self._cluster.trace

    @property
    def history(self) -> list[Ran]:
        """Each attempt that really ran, in the order of their ends."""
        if self._cluster.history is None:
            raise EngineError("The world keeps no history.", hint="Make it with record=True.")
        return self._cluster.history

    def leftovers(self) -> Leftovers:
        arbiter = self._cluster.arbiter
        return Leftovers(
            workers=tuple(worker.id for worker in self._cluster.workers()),
            places=tuple(place for place in arbiter.owners if place not in arbiter.workers),
            leases=tuple(arbiter.workers),
            pending=tuple(arbiter.pending),
        )


def inject(cluster: Cluster, faults: Iterable[Fault]) -> None:
    """Schedule each fault at its time after the present."""
    began = cluster.clock.now
    for fault in faults:
        host = getattr(fault, "host", None)
        if host is not None and host not in cluster.machines:
            raise unknown("node", host, cluster.machines)
        cluster.clock.at(began + fault.at, _strike, cluster, fault)


def _strike(cluster: Cluster, fault: Fault) -> None:
    _STRIKES[type(fault)](cluster, fault)


def _worker_dies(cluster: Cluster, fault: WorkerDies) -> None:
    workers = cluster.workers()
    if workers:
        workers[fault.pick % len(workers)].fall()


def _node_dies(cluster: Cluster, fault: NodeDies) -> None:
    cluster.node_dies(cluster.machines[fault.host], fault.back_after)


def _cut_off(cluster: Cluster, fault: NodeCutOff) -> None:
    cluster.cut_off(cluster.machines[fault.host], fault.for_s)


def _slow(cluster: Cluster, fault: SlowNode) -> None:
    machine = cluster.machines[fault.host]
    machine.slow_down(fault.factor)
    cluster.clock.at(cluster.clock.now + fault.for_s, machine.recover, fault.factor)


def _disturb(cluster: Cluster, fault: Late | Duplicate) -> None:
    workers = cluster.workers()
    if workers:
        workers[fault.pick % len(workers)].disturbances.append(fault)


def _driver_crashes(cluster: Cluster, fault: DriverCrashes) -> None:
    present = [driver for driver in cluster.drivers if driver.present]
    if present:
        driver = present[fault.pick % len(present)]
        cluster.crash(driver)
        if cluster.waiting is driver:
            raise DriverCrashed


_STRIKES: dict[type, Callable[..., None]] = {
    WorkerDies: _worker_dies,
    NodeDies: _node_dies,
    NodeCutOff: _cut_off,
    SlowNode: _slow,
    Late: _disturb,
    Duplicate: _disturb,
    DriverCrashes: _driver_crashes,
}
