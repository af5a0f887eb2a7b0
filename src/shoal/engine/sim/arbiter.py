"""Who holds which place, who waits, who is asked to give back. All drivers of a world share one arbiter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from shoal.engine import shares
from shoal.engine.base import Reservation
from shoal.engine.fitting import Room, ensure_possible, fit, rooms
from shoal.engine.sim.clock import Clock
from shoal.engine.sim.driver import Driver
from shoal.errors import CannotPlace
from shoal.model import Granted, LeaseRecalled, Need, Node, Place, Refused


class Lease:
    """A place that a driver holds, with the worker on it once there is one."""

    __slots__ = ("driver", "place", "recalled", "worker")

    def __init__(self, place: Place, driver: Driver) -> None:
        self.place = place
        self.driver = driver
        self.worker: int | None = None
        self.recalled = False


class Request:
    """A reservation that waits."""

    __slots__ = ("driver", "id", "needs")

    def __init__(self, number: int, driver: Driver, needs: tuple[Need, ...]) -> None:
        self.id = number
        self.driver = driver
        self.needs = needs


class Arbiter:
    """Shares are of the whole cluster: a need weighs as much as the largest part of any resource it takes."""

    def __init__(self, clock: Clock, nodes: Callable[[], Sequence[Node]]) -> None:
        self._clock = clock
        self._nodes = nodes
        self.leases: dict[int, Lease] = {}
        self.pending: dict[int, Request] = {}
        self.vanished: set[int] = set()
        """Places that went with their node."""
        self._last_place = 0
        self._last_reservation = 0

    def request(self, driver: Driver, needs: tuple[Need, ...], deadline_s: float | None) -> Reservation:
        ensure_possible(needs, self._nodes())
        self._last_reservation += 1
        request = Request(self._last_reservation, driver, needs)
        self.pending[request.id] = request
        places = self._grant(request)
        if places is not None:
            return Reservation(request.id, places)
        if deadline_s is not None:
            self._clock.at(self._clock.now + deadline_s, self._expire, request)
        self._recall()
        return Reservation(request.id, ())

    def cancel(self, driver: Driver, reservation: int) -> None:
        request = self.pending.get(reservation)
        if request is not None and request.driver is driver:
            del self.pending[reservation]
            self.settle()

    def occupy(self, driver: Driver, place: Place, worker: int) -> bool:
        """Put a worker on a place; False when the driver does not hold it empty."""
        lease = self.leases.get(place.id)
        if lease is None or lease.driver is not driver or lease.worker is not None:
            return False
        lease.worker = worker
        return True

    def free(self, place: Place) -> None:
        if self.leases.pop(place.id, None) is not None:
            self.settle()

    def drop_driver(self, driver: Driver, *, occupied: bool) -> None:
        """A driver is gone, with what it waited for and its empty places; with `occupied`, all its places."""
        self.pending = {key: request for key, request in self.pending.items() if request.driver is not driver}
        self.leases = {
            key: lease
            for key, lease in self.leases.items()
            if lease.driver is not driver or (lease.worker is not None and not occupied)
        }
        self.settle()

    def drop_node(self, host: str) -> None:
        """A node is gone, with its places; what can no longer be had is refused."""
        for key in [key for key, lease in self.leases.items() if lease.place.host == host]:
            del self.leases[key]
            self.vanished.add(key)
        for request in list(self.pending.values()):
            try:
                ensure_possible(request.needs, self._nodes())
            except CannotPlace as error:
                self._refuse(request, str(error))
        self.settle()

    def settle(self) -> None:
        """Something changed: grant what can be granted, and recall what others are owed."""
        for request in list(self.pending.values()):
            places = self._grant(request)
            if places is not None:
                request.driver.receive(Granted(request.id, places, self._clock.now))
        if self.pending:
            self._recall()

    def _grant(self, request: Request) -> tuple[Place, ...] | None:
        """The places of a request, where there is room and no other driver is owed it."""
        found = fit(request.needs, self._rooms())
        if found is None or not self._may_take(request):
            return None
        del self.pending[request.id]
        places = []
        for need, (host, devices) in zip(request.needs, found, strict=True):
            self._last_place += 1
            place = Place(self._last_place, host, need, devices)
            self.leases[place.id] = Lease(place, request.driver)
            places.append(place)
        return tuple(places)

    def _may_take(self, request: Request) -> bool:
        if all(other.driver is request.driver for other in self.pending.values()):
            return True
        wants, holds = self._balance(count_recalled=True)
        more = sum(map(self._weigher(), request.needs))
        return shares.may_take(request.driver.key, more, 1.0, wants, holds)

    def _expire(self, request: Request) -> None:
        if request.id in self.pending:
            self._refuse(request, "There was no room before the deadline.")
            self.settle()

    def _refuse(self, request: Request, why: str) -> None:
        del self.pending[request.id]
        request.driver.receive(Refused(request.id, why, self._clock.now))

    def _recall(self) -> None:
        while (victim := self._victim()) is not None:
            victim.recalled = True
            assert victim.worker is not None
            victim.driver.receive(LeaseRecalled(victim.worker, self._clock.now))

    def _victim(self) -> Lease | None:
        """One lease of a driver above its share that would help another one which finds no room."""
        holders = {lease.driver.key: lease.driver for lease in self.leases.values() if lease.driver.present}
        if all(set(holders) <= {request.driver.key} for request in self.pending.values()):
            return None
        waiting = self._without_room()
        wants, holds = self._balance(count_recalled=False)
        weigh = self._weigher()
        for key in sorted(holders):
            others = [request for request in waiting if request.driver.key != key]
            spare = shares.surplus(key, 1.0, wants, holds)
            if not others or spare <= shares.SLACK:
                continue
            starving = any(holds.get(request.driver.key, 0.0) <= shares.SLACK for request in others)
            lease = self._newest_useful(holders[key], others)
            if lease is not None and (starving or weigh(lease.place.need) <= spare + shares.SLACK):
                return lease
        return None

    def _newest_useful(self, driver: Driver, others: Sequence[Request]) -> Lease | None:
        """Never the last one: a driver keeps what lets it go on."""
        own = [lease for lease in self.leases.values() if lease.driver is driver and not lease.recalled]
        if len(own) <= 1:
            return None
        nodes = {node.host: node for node in self._nodes()}
        needs = [need for request in others for need in request.needs]
        for lease in reversed(own):
            node = nodes[lease.place.host]
            if lease.worker is not None and any(need.refusal(node) is None for need in needs):
                return lease
        return None

    def _without_room(self) -> list[Request]:
        """The requests that do not fit, one after the other, even into what was recalled already."""
        left = self._rooms(count_recalled=False)
        waiting = []
        for request in self.pending.values():
            trial = {host: copy(room) for host, room in left.items()}
            if fit(request.needs, trial) is None:
                waiting.append(request)
            else:
                left = trial
        return waiting

    def _rooms(self, *, count_recalled: bool = True) -> dict[str, Room]:
        leases = self.leases.values()
        return rooms(self._nodes(), [lease.place for lease in leases if count_recalled or not lease.recalled])

    def _balance(self, *, count_recalled: bool) -> tuple[dict[str, float], dict[str, float]]:
        """What each driver wants in all, and what it holds."""
        weigh = self._weigher()
        holds: dict[str, float] = {}
        for lease in self.leases.values():
            if count_recalled or not lease.recalled:
                holds[lease.driver.key] = holds.get(lease.driver.key, 0.0) + weigh(lease.place.need)
        wants = dict(holds)
        for request in self.pending.values():
            wants[request.driver.key] = wants.get(request.driver.key, 0.0) + sum(map(weigh, request.needs))
        return wants, holds

    def _weigher(self) -> Callable[[Need], float]:
        nodes = self._nodes()
        cpu = sum(node.cpu for node in nodes) or 1.0
        gpu = sum(node.gpu for node in nodes) or 1.0
        memory = sum(node.memory_bytes for node in nodes) or 1.0
        return lambda need: max(need.cpu / cpu, need.gpu / gpu, need.memory_bytes / memory)
