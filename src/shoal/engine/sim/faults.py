"""What goes wrong in a simulation, and when: frozen values, written by hand or drawn from a seed.

Times are virtual seconds since the world began. `pick` chooses among those that exist at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from shoal.model import Node


class WorkerDies(NamedTuple):
    """A worker's process ends by itself. Nothing happens when there is none."""

    at: float
    pick: int = 0


class NodeDies(NamedTuple):
    """Everything on the node is gone at once. It returns, empty, after `back_after`; with None, never."""

    at: float
    host: str
    back_after: float | None = None


class NodeCutOff(NamedTuple):
    """Messages to and from the node are held while its workers go on.

    Cut off for longer than the world's `detect_s`, it is given up for lost; what it sends later is stale.
    """

    at: float
    host: str
    for_s: float


class SlowNode(NamedTuple):
    """Everything there takes `factor` times as long for a while."""

    at: float
    host: str
    factor: float
    for_s: float


class Late(NamedTuple):
    """The next message about an item from one worker arrives `by_s` too late; later ones overtake it."""

    at: float
    by_s: float
    pick: int = 0


class Duplicate(NamedTuple):
    """The next start, report or end of an item from one worker arrives again, `after_s` later."""

    at: float
    after_s: float
    pick: int = 0


class DriverCrashes(NamedTuple):
    """A driver dies as by `kill -9`: `DriverCrashed` comes out of its call to `wait`."""

    at: float
    pick: int = 0


Fault = WorkerDies | NodeDies | NodeCutOff | SlowNode | Late | Duplicate | DriverCrashes


class DriverCrashed(BaseException):
    """This driver is dead: every further call it makes raises this again, and changes nothing."""


def random_faults(
    seed: int, horizon_s: float, nodes: Sequence[Node], *, most: int = 8, driver_crashes: int = 0
) -> tuple[Fault, ...]:
    """Up to `most` faults, and up to `driver_crashes` deaths of a driver, within the horizon, by time.

    The first node always comes back, so that a run which waits for it can end.
    """
    random = Random(f"faults {seed}")
    faults = [_draw(random, horizon_s, nodes) for _ in range(random.randint(0, most))]
    faults += [
        DriverCrashes(random.uniform(0, horizon_s), random.randrange(64))
        for _ in range(random.randint(0, driver_crashes))
    ]
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _draw(random: Random, horizon_s: float, nodes: Sequence[Node]) -> Fault:
    at = random.uniform(0, horizon_s)
    pick = random.randrange(64)
    index = random.randrange(len(nodes))
    host = nodes[index].host
    span = random.expovariate(1.0) * horizon_s / 4
    kind = random.choices(range(6), weights=(4, 1, 2, 1, 2, 2))[0]
    if kind == 0:
        return WorkerDies(at, pick)
    if kind == 1:
        return NodeDies(at, host, span if index == 0 or random.random() < 0.7 else None)
    if kind == 2:
        return NodeCutOff(at, host, span)
    if kind == 3:
        return SlowNode(at, host, random.uniform(1.5, 20), span)
    if kind == 4:
        return Late(at, span, pick)
    return Duplicate(at, span * random.choice((0.0, 1.0)), pick)
