"""What a simulation keeps for tests to look at, and a notice that is no event of the contract: values."""

from __future__ import annotations

from typing import NamedTuple

from shoal.model import Event, LostCause


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
