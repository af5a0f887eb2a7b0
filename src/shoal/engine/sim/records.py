"""Values of a simulation: what its user code does, what it keeps for tests, and a notice beside the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shoal.model import Event, Factory, Item, ItemState, LostCause


class Gone(NamedTuple):
    """What a node says of a worker that is no longer there; the driver makes a `WorkerLost` of it."""

    cause: LostCause
    why: str
    at: float


class Ran(NamedTuple):
    """An attempt that really ran. `state` is `lost` when its worker or node died under it."""

    driver: str
    worker: int
    host: str
    seq: int
    attempt: int
    started: float
    ended: float
    state: str


Trace = list[tuple[float, str, Event]]
"""When, at which driver, what arrived."""


class Leftovers(NamedTuple):
    """What should not be there when every driver is done. False when there is nothing."""

    workers: tuple[int, ...]
    """Processes that still run, known to a driver or not."""
    places: tuple[int, ...]
    """Places that are held without a worker."""
    leases: tuple[int, ...]
    """Places that are held by a worker."""
    pending: tuple[int, ...]
    """Reservations that still wait."""

    def __bool__(self) -> bool:
        return any(len(part) > 0 for part in self)


class Behaviour(NamedTuple):
    """One attempt at one item. `seconds` is the time it takes on a node of speed 1."""

    seconds: float
    outcome_state: str = ItemState.DONE
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    reports: tuple[tuple[float, Mapping[str, Any], int | None], ...] = ()
    """(fraction of `seconds`, metrics, step), in the order of the fractions."""
    crash: bool = False
    """The worker dies where the item would have ended; `error` says of what."""
    leaves: bool = False
    """The worker goes there instead, because there is no room for it; `error` says why."""
    hang: bool = False
    """It never ends by itself: after its reports it waits for ever."""
    ignores_cancel: bool = False
    facts: Mapping[str, Any] | None = None
    """What the worker says of itself from then on, told before the end."""


class Startup(NamedTuple):
    """How a worker starts: after `seconds` on a node of speed 1 it is ready, or fails with `error`."""

    seconds: float = 0.1
    error: str | None = None
    facts: Mapping[str, Any] = {}
    """What the worker says of itself when it is ready, beside what the simulation knows."""


Model = Callable[[Factory, Item], Behaviour]
"""Asked as each item starts. The factory's `env` is as the worker sees it, devices included."""

StartModel = Callable[[Factory], Startup]


def usual_start(factory: Factory) -> Startup:
    """Every worker starts well, in a tenth of a second."""
    return Startup()
