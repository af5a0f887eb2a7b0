"""Reservations of one driver: granted at once or later, refused at a deadline, and given back when others are owed.

Written once for every engine whose nodes are shared; who holds what is kept by a `Leases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal.engine import fitting
from shoal.engine.base import Reservation
from shoal.model import Event, Granted, LeaseRecalled, Need, Node, Place, Refused

TICK_S = 0.1
"""How often it is looked whether something came free, or others are owed something."""


class Leases(Protocol):
    """Where the drivers of some nodes agree on who holds what."""

    def changed(self) -> bool:
        """Whether another driver may have changed anything since this one looked."""

    def take(self, needs: Sequence[Need], want_more: float, waited_s: float) -> tuple[Place, ...] | None:
        """Places for all the needs, or None. `want_more` is the CPU that is waited for in all."""

    def give(self, place: Place) -> None:
        """Give back a place; one that was given back already is ignored."""

    def surplus(self, want_more: float) -> float:
        """How much CPU others are owed of what this driver holds."""

    def close(self) -> None:
        """Give back everything."""


class _Pending(NamedTuple):
    needs: tuple[Need, ...]
    since: float
    deadline: float | None


class Reservations:
    """Owned by an engine, which calls `tick` now and then and passes its events on."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._pending: dict[int, _Pending] = {}
        self._recalled: set[int] = set()
        self._last = 0
        self._next_tick = 0.0

    def reserve(
        self, needs: Sequence[Need], deadline_s: float | None, nodes: Sequence[Node], now: float
    ) -> Reservation:
        fitting.ensure_possible(needs, nodes)
        self._last += 1
        asked = sum(need.cpu for need in needs)
        places = self._leases.take(needs, self._wanted() + asked, 0.0)
        if places is None:
            deadline = None if deadline_s is None else now + deadline_s
            self._pending[self._last] = _Pending(tuple(needs), now, deadline)
            self.hurry()
        return Reservation(self._last, places or ())

    def cancel(self, reservation: int) -> None:
        if self._pending.pop(reservation, None) is not None:
            self._leases.surplus(self._wanted())

    def give(self, place: Place) -> None:
        self._leases.give(place)
        self.hurry()

    def hurry(self) -> None:
        """Something may have come free: look at the next opportunity."""
        self._next_tick = 0.0

    def clear(self) -> None:
        self._pending.clear()

    def next_tick(self) -> float:
        return self._next_tick

    def tick(self, now: float, workers: Mapping[int, Place]) -> Iterator[Event]:
        """What is granted, refused or recalled now. `workers` are those that hold a place, oldest first."""
        self._next_tick = now + TICK_S
        if not self._pending and not self._leases.changed():
            return
        for number, pending in list(self._pending.items()):
            places = self._leases.take(pending.needs, self._wanted(), now - pending.since)
            if places is not None:
                del self._pending[number]
                yield Granted(number, places, now)
            elif pending.deadline is not None and now >= pending.deadline:
                del self._pending[number]
                yield Refused(number, "no room came free before the deadline", now)
        yield from self._recall(self._leases.surplus(self._wanted()), now, workers)

    def _recall(self, owed: float, now: float, workers: Mapping[int, Place]) -> Iterator[Event]:
        """Whole workers that fit into what is owed, the youngest first; each is asked for once."""
        self._recalled &= workers.keys()
        leaving = sum(workers[number].need.cpu for number in self._recalled)
        for number, place in reversed(list(workers.items())):
            if number in self._recalled or owed - leaving < place.need.cpu - fitting.SLACK:
                continue
            self._recalled.add(number)
            leaving += place.need.cpu
            yield LeaseRecalled(number, now)

    def _wanted(self) -> float:
        return sum(need.cpu for pending in self._pending.values() for need in pending.needs)
