"""The claims of all drivers of a simulated world, kept in memory; who gets what is decided as on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from shoal.engine import arbitration
from shoal.engine.base import Reservation
from shoal.engine.claims import Ask, Claim, Table
from shoal.engine.room import Capacities
from shoal.engine.sim.clock import Clock
from shoal.engine.sim.driver import Driver
from shoal.errors import CannotPlace
from shoal.model import Granted, LeaseRecalled, Need, Node, Place, Refused


class Arbiter:
    """Decides at once whenever something changes, for all drivers."""

    def __init__(self, clock: Clock, nodes: Callable[[], Sequence[Node]]) -> None:
        self._clock = clock
        self._nodes = nodes
        self.table = Table(nodes())
        self._drivers: dict[str, Driver] = {}
        self._numbers = count(1)
        self._reservations = count(1)
        self.capacities = Capacities()
        self.owners: dict[int, Driver] = {}
        """Of each place that is held."""
        self.workers: dict[int, int] = {}
        """The worker on a place, once there is one."""
        self.pending: dict[int, tuple[Driver, Ask]] = {}
        self._recalling = False
        self.vanished: set[int] = set()
        """Places that went with their node."""

    def enter(self, driver: Driver, weight: float) -> None:
        self._drivers[driver.key] = driver
        self.table.claims[driver.key] = Claim(weight)

    def request(
        self,
        driver: Driver,
        needs: tuple[Need, ...],
        deadline_s: float | None,
        together: bool,
        lasts_s: float | None,
    ) -> Reservation:
        self.capacities.ensure_possible(needs, self._nodes(), together)
        ask = Ask(next(self._reservations), needs, self._clock.now, together, lasts_s)
        self.pending[ask.id] = driver, ask
        self.table.ask(driver.key, ask)
        places = self._grant([(driver, ask)]).get(ask.id, ())
        if not places:
            if deadline_s is not None:
                self._clock.at(self._clock.now + deadline_s, self._expire, ask.id)
            self._recall_soon()
        return Reservation(ask.id, places)

    def cancel(self, driver: Driver, reservation: int) -> None:
        if reservation in self.pending and self.pending[reservation][0] is driver:
            self._withdraw(reservation)
            self.settle()

    def occupy(self, driver: Driver, place: Place, worker: int) -> bool:
        """Put a worker on a place; False when the driver does not hold it empty."""
        if self.owners.get(place.id) is not driver or place.id in self.workers:
            return False
        self.workers[place.id] = worker
        hold = self.table.claims[driver.key].holds[place.id]
        self.table.hold(driver.key, hold._replace(used=True))
        self._recall_soon()
        return True

    def expect(self, driver: Driver, place: Place, seconds: float) -> None:
        hold = self.table.claims[driver.key].holds.get(place.id)
        if hold is not None:
            self.table.hold(driver.key, hold._replace(until=self._clock.now + seconds))
            self.settle()

    def free(self, place: Place) -> None:
        if place.id in self.owners:
            self._drop(place.id)
            self.settle()

    def drop_driver(self, driver: Driver, *, occupied: bool) -> None:
        """A driver is gone, with what it waited for and its empty places; with `occupied`, all its places."""
        for ask in [ask for ask, (owner, _) in self.pending.items() if owner is driver]:
            self._withdraw(ask)
        holds = list(self.table.claims[driver.key].holds.values())
        if not holds:
            self._forget(driver)
        for hold in holds:
            if occupied or not hold.used:
                self._drop(hold.place.id)
            else:  # Nobody is there who could be asked for it.
                self.table.hold(driver.key, hold._replace(used=False))
        self.settle()

    def drop_node(self, host: str) -> None:
        """A node is gone, with its places; what can no longer be had is refused."""
        holds = [hold for claim in self.table.claims.values() for hold in claim.holds.values()]
        for hold in holds:
            if hold.place.host == host:
                self._drop(hold.place.id)
                self.vanished.add(hold.place.id)
        self.nodes_changed()

    def nodes_changed(self) -> None:
        self.table = Table(self._nodes(), self.table.claims)
        for number, (_, ask) in list(self.pending.items()):
            try:
                self.capacities.ensure_possible(ask.needs, self._nodes(), ask.together)
            except CannotPlace as error:
                self._refuse(number, str(error))
        self.settle()

    def settle(self) -> None:
        """Something changed: grant what can be granted, and recall what others are owed."""
        waiting = list(self.pending.values())
        for number, places in self._grant(waiting).items():
            driver = self.owners[places[0].id]
            driver.receive(Granted(number, places, self._clock.now))
        self._recall_soon()

    def _grant(self, asks: Sequence[tuple[Driver, Ask]]) -> dict[int, tuple[Place, ...]]:
        asked = [(driver.key, ask) for driver, ask in asks]
        granted = {}
        for key, ask, places in arbitration.grants(self.table, asked, self._numbers, self._clock.now):
            del self.pending[ask.id]
            self.owners.update((place.id, self._drivers[key]) for place in places)
            granted[ask.id] = places
        return granted

    def _recall_soon(self) -> None:
        """Once for all that is asked for at this moment."""
        if self.pending and not self._recalling:
            self._recalling = True
            self._clock.at(self._clock.now, self._recall)

    def _recall(self) -> None:
        self._recalling = False
        for key, hold in arbitration.recalls(self.table):
            worker = self.workers[hold.place.id]
            self._drivers[key].receive(LeaseRecalled(worker, self._clock.now))

    def _drop(self, place: int) -> None:
        driver = self.owners.pop(place)
        self.workers.pop(place, None)
        self.table.drop(driver.key, place)
        self._forget(driver)

    def _forget(self, driver: Driver) -> None:
        if not driver.present and not self.table.claims[driver.key].holds:
            del self.table.claims[driver.key]

    def _withdraw(self, ask: int) -> Driver:
        driver, _ = self.pending.pop(ask)
        self.table.withdraw(driver.key, ask)
        return driver

    def _expire(self, ask: int) -> None:
        if ask in self.pending:
            self._refuse(ask, "There was no room before the deadline.")
            self.settle()

    def _refuse(self, ask: int, why: str) -> None:
        self._withdraw(ask).receive(Refused(ask, why, self._clock.now))
