"""Reservations of one driver: granted at once or later, refused at a deadline, and given back when others are owed.

Written once for every engine whose nodes are shared; who holds what is kept by a `Leases`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal.engine.base import Reservation
from shoal.engine.claims import Ask
from shoal.engine.room import Capacities
from shoal.errors import CannotPlace
from shoal.model import Event, Granted, LeaseRecalled, Need, Node, Place, Refused

TICK_S = 0.1
"""How often it is looked whether something came free, or others are owed something."""


class Settled(NamedTuple):
    """What was decided for one driver."""

    granted: Mapping[int, tuple[Place, ...]]
    """By the number of the ask."""
    recalled: Collection[int]
    """Places that it is to give back, those of earlier decisions among them."""


class Leases(Protocol):
    """Where the drivers of some nodes agree on who holds what."""

    def changed(self) -> bool:
        """Whether another driver may have changed anything since this one looked."""

    def settle(self, asks: Sequence[Ask], used: Collection[int], now: float) -> Settled:
        """Places for those of all asks of this driver that may have them now; `used` are places with a worker."""

    def give(self, place: Place) -> None:
        """Give back a place; one that was given back already is ignored."""

    def expect(self, place: Place, seconds: float, now: float) -> None:
        """A place will be given back in so many seconds; others see it with the next decision."""

    def close(self) -> None:
        """Give back everything."""


class Reservations:
    """Owned by an engine, which calls `tick` now and then and passes its events on. `nodes` is the same object as long
    as they are the same nodes."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._capacities = Capacities()
        self._asks: dict[int, Ask] = {}
        self._deadlines: dict[int, float] = {}
        self._granted: dict[int, tuple[Place, ...]] = {}
        """What nobody was told yet."""
        self._owed: Collection[int] = ()
        self._recalled: set[int] = set()
        self._used: Collection[int] = ()
        self._untold = False
        """Whether the others believe something of this driver that is no longer so."""
        self._last = 0
        self._next_tick = 0.0
        self._nodes: Sequence[Node] = ()

    def capacity(self, need: Need, nodes: Sequence[Node]) -> int:
        return self._capacities.of(need, nodes)

    def reserve(
        self,
        needs: Sequence[Need],
        deadline_s: float | None,
        nodes: Sequence[Node],
        now: float,
        *,
        together: bool = False,
        lasts_s: float | None = None,
    ) -> Reservation:
        self._capacities.ensure_possible(needs, nodes, together)
        self._last += 1
        ask = Ask(self._last, tuple(needs), now, together, lasts_s)
        last = next(reversed(self._asks.values()), None)
        self._asks[ask.id] = ask
        if deadline_s is not None:
            self._deadlines[ask.id] = now + deadline_s
        self.hurry()
        if last is None or last._replace(id=ask.id, since=now) != ask:  # Behind its like, it waits as well.
            self._settle(now)
        return Reservation(ask.id, self._granted.pop(ask.id, ()))

    def cancel(self, reservation: int) -> None:
        for place in self._granted.pop(reservation, ()):
            self.give(place)
        self._forget(reservation)

    def give(self, place: Place) -> None:
        self._leases.give(place)
        self.hurry()

    def expect(self, place: Place, seconds: float, now: float) -> None:
        self._leases.expect(place, seconds, now)
        self._untold = True
        self.hurry()

    def hurry(self) -> None:
        """Something may have come free: look at the next opportunity."""
        self._next_tick = 0.0

    def clear(self) -> None:
        self._asks.clear()

    def next_tick(self) -> float:
        return self._next_tick

    def tick(self, now: float, workers: Mapping[int, Place], nodes: Sequence[Node]) -> Iterator[Event]:
        """What is granted, refused or recalled now. `workers` are those that hold a place."""
        self._next_tick = now + TICK_S
        used = {place.id for place in workers.values()}
        if self._asks or self._untold or used != self._used or self._leases.changed():
            self._used = used
            self._settle(now)
        granted, self._granted = self._granted, {}
        for number, places in granted.items():
            yield Granted(number, places, now)
        yield from self._refuse(nodes, now)
        self._recalled &= workers.keys()
        owed = set(self._owed)
        for number, place in reversed(list(workers.items())):
            if place.id in owed and not place.lent and number not in self._recalled:
                self._recalled.add(number)
                yield LeaseRecalled(number, now)

    def _settle(self, now: float) -> None:
        settled = self._leases.settle(list(self._asks.values()), self._used, now)
        for number in settled.granted:
            self._forget(number)
        self._granted.update(settled.granted)
        self._owed = settled.recalled
        self._untold = False

    def _forget(self, ask: int) -> None:
        self._deadlines.pop(ask, None)
        if self._asks.pop(ask, None) is not None:
            self._untold = True
            self.hurry()

    def _refuse(self, nodes: Sequence[Node], now: float) -> Iterator[Event]:
        for number in [number for number, deadline in self._deadlines.items() if now >= deadline]:
            self._forget(number)
            yield Refused(number, "no room came free before the deadline", now)
        if nodes is not self._nodes:
            self._nodes = nodes
            for ask in list(self._asks.values()):
                try:
                    self._capacities.ensure_possible(ask.needs, nodes, ask.together)
                except CannotPlace as error:
                    self._forget(ask.id)
                    yield Refused(ask.id, str(error), now)


class SharedNodes:
    """The half of an engine that sets places aside, for engines whose nodes are shared and whose clock is the real one.

    The other half, which runs workers, is the engine's own. `_nodes` is replaced when there are other nodes.
    """

    def __init__(self, nodes: Sequence[Node], leases: Leases) -> None:
        self._nodes = nodes
        self._leases = leases
        self._reservations = Reservations(leases)
        self._events: list[Event] = []
        """What `wait` has not told yet."""
        self._offset = time.time() - time.monotonic()

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def capacity(self, need: Need) -> int:
        return self._reservations.capacity(need, self._nodes)

    def now(self) -> float:
        return self._offset + time.monotonic()

    def reserve(
        self,
        needs: Sequence[Need],
        deadline_s: float | None,
        *,
        together: bool = False,
        lasts_s: float | None = None,
    ) -> Reservation:
        return self._reservations.reserve(
            needs, deadline_s, self._nodes, self.now(), together=together, lasts_s=lasts_s
        )

    def cancel_reservation(self, reservation: int) -> None:
        self._reservations.cancel(reservation)

    def release(self, place: Place) -> None:
        self._reservations.give(place)

    def expect_release(self, place: Place, seconds: float) -> None:
        self._reservations.expect(place, seconds, self.now())

    def _tick(self, workers: Mapping[int, Place], now: float) -> None:
        """Hear what became of reservations and leases. `workers` are those that hold a place."""
        self._events.extend(self._reservations.tick(now, workers, self._nodes))
