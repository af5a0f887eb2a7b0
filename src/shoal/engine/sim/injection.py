"""Puts faults on the clock of a simulated cluster, and does to it what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.engine.sim.cluster import Cluster
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
from shoal.errors import unknown


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
