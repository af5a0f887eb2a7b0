"""Which places a lane asks for: under a ceiling for each node, or together with companions of its workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.engine.base import Engine
from shoal.engine.room import capacity
from shoal.errors import CannotPlace, EngineError
from shoal.model import FactsChanged, Item, LostCause, Need, Node, Place, WorkerLost, WorkerReady
from shoal.shape.pool.values import COMPANION, Companion
from shoal.shape.roster import START_FAILURES, Member, Roster


class Ceiling:
    """`most` is how many workers each node may have, by host; None: as many as it has room for."""

    def __init__(self, engine: Engine, need: Need, most: Mapping[str, int] | None) -> None:
        self._engine = engine
        self._need = need
        self._most = most

    def capacity(self) -> int:
        """How many workers there may be on the nodes that are alive, were these empty."""
        if self._most is None:
            return self._engine.capacity(self._need)
        return sum(
            min(most, self._engine.capacity(self._need._replace(node=host)))
            for host, most in self._allowed().items()
        )

    def most_asks(self, wanted: int) -> int:
        """How many reservations may wait for so many workers."""
        return max(0, wanted)

    def next_needs(
        self, hosts: Iterable[str | None], pending: Iterable[str | None] = ()
    ) -> list[Need] | None:
        """What to ask for, for one more worker; None where every node has as many as it may have.

        `hosts` are those of all workers that there are, and of those that were asked for; `pending` only these.
        """
        if self._most is None:
            return [self._need]
        taken = Counter(hosts)
        below = {host: most - taken[host] for host, most in self._allowed().items()}
        host = max(below, key=below.__getitem__, default=None)
        return [self._need._replace(node=host)] if host is not None and below[host] > 0 else None

    def _allowed(self) -> dict[str, int]:
        most, node = self._most or {}, self._need.node
        hosts = [each.host for each in self._engine.nodes() if node in (None, each.host)]
        return {host: most[host] for host in hosts if host in most}


class Companions:
    """The companions of a lane's workers: one worker on each node that the others there use, without items itself.

    The first worker on a node is asked for together with its companion, and nobody is given an item before that is
    ready. `users` are the workers of the lane; `most` is how many of them each node may have.
    """

    def __init__(
        self, engine: Engine, companion: Companion, need: Need, users: Roster, most: Mapping[str, int] | None
    ) -> None:
        self._engine = engine
        self._companion = companion
        self._need = need
        self._users = users
        self._most = most
        self.roster = Roster(engine, companion.factory)
        self._served: dict[int, set[int]] = {}
        """The users of each companion, by their numbers."""
        self._by_user: dict[int, int] = {}
        self._facts: dict[int, Mapping[str, Any]] = {}
        """What each companion says of itself, once it is ready."""
        self._losses = 0
        """How many were lost one after the other, without the end of an item in between."""
        self._items = 0

    # Room.

    def capacity(self) -> int:
        """How many users there may be on the nodes that are alive, were these empty."""
        return sum(self._room().values())

    def _room(self) -> dict[str, int]:
        """How many users each node may have, by host."""
        room = {node.host: self._room_on(node) for node in self._engine.nodes()}
        most = self._most
        return room if most is None else {host: min(users, most.get(host, 0)) for host, users in room.items()}

    def _room_on(self, node: Node) -> int:
        """Beside as many companions as are good for most users."""
        _, need, each = self._companion
        found, served = 0, 0
        while need.refusal(node) is None:
            node = node._replace(
                cpu=node.cpu - need.cpu,
                memory_bytes=node.memory_bytes - need.memory_bytes,
                gpu=node.gpu - need.gpu,  # type: ignore[arg-type]
            )
            room = capacity(self._need, [node])
            served = room if each is None else served + each
            if min(room, served) <= found:
                break
            found = min(room, served)
        return found

    def most_asks(self, wanted: int) -> int:
        """How many reservations may wait for so many users: one on each node, as any will do that is granted."""
        return len(self._engine.nodes()) if wanted > 0 else 0

    def next_needs(self, hosts: Iterable[str | None], pending: Iterable[str | None]) -> list[Need] | None:
        """As that of `Ceiling`, for one more user: on the node where most are missing, with a companion where none has
        a seat, and one request at a time on each."""
        taken, asked = Counter(hosts), set(pending)
        left = {host: most - taken[host] for host, most in self._room().items() if host not in asked}
        host = max(left, key=left.__getitem__, default=None)
        if host is None or left[host] <= 0:
            return None
        user = self._need._replace(node=host)
        return [user] if self._seat(host) is not None else [self._companion.need._replace(node=host), user]

    def _seat(self, host: str) -> Member | None:
        """A companion there that can serve one more."""
        most = self._companion.users
        for number, served in self._served.items():
            member = self.roster.members[number]
            if member.node == host and not member.leaving and (most is None or len(served) < most):
                return member
        return None

    def refuse(self) -> None:
        """Raise because no node could hold a user and its companion."""
        raise CannotPlace(
            f"No node can hold a worker ({self._need.words}) beside the one that it uses"
            f" ({self._companion.need.words}).",
            hint="Ask for less in resources:, or add a node that has it.",
        )

    # Users.

    def begin(self, places: Sequence[Place]) -> Member | None:
        """The companion for the user whose place is the last of these; None where it is gone, and the place with it."""
        if len(places) == 1:
            companion = self._seat(places[0].host)
            if companion is None:
                self._engine.release(places[0])
            return companion
        companion = self.roster.spawn(places[0])
        self._served[companion.number] = set()
        return companion

    def serve(self, companion: int, user: Member) -> None:
        self._served[companion].add(user.number)
        self._by_user[user.number] = companion
        self._users.block(user, companion not in self._facts)

    def left(self, user: int) -> bool:
        """A user is gone. Whether its companion goes, too, as it was the last."""
        companion = self._by_user.pop(user)
        served = self._served.get(companion, set())
        served.discard(user)
        if served or companion not in self._served:
            return False
        self.roster.leave(self.roster.members[companion])
        self._engine.end(companion)
        return True

    def sent(self, item: Item, user: int) -> Item:
        """The item as a user gets it: with what its companion says of itself."""
        return item._replace(params={**item.params, COMPANION: dict(self._facts[self._by_user[user]])})

    # Companions.

    def heard(self, event: WorkerReady | FactsChanged) -> None:
        """A companion is ready, or says other things of itself than before."""
        if isinstance(event, WorkerReady):
            self.roster.ready(event)
            self.roster.start_failures = 0
        self._facts[event.worker] = event.facts
        self._block(self._served.get(event.worker, ()), False)

    def recalled(self, worker: int) -> list[int]:
        """Others are owed the place of this user or companion: the users that go for it. A companion goes with the last
        of them."""
        if worker not in self.roster.members:
            return [worker]
        self.roster.leave(self.roster.members[worker])
        return list(self._served[worker])

    def lost(self, event: WorkerLost) -> Member | None:
        """A companion is gone. Its users wait for the one that takes its place, which is given; they go where there is
        no place for one at once. Raises when companions are lost again and again."""
        member = self.roster.members[event.worker]
        served = self._served.pop(event.worker)
        self._facts.pop(event.worker, None)
        self.roster.lost(event)
        staying = [user for user in served if not self._users.members[user].leaving]
        self._block(staying, True)
        if not staying or event.cause == LostCause.NODE:
            return None
        self._count_loss(event.why)
        place = self._place(member.node)
        if place is None:
            for user in staying:
                self._users.dismiss(self._users.members[user])
            return None
        another = self.roster.spawn(place)
        self._served[another.number] = served
        self._by_user.update(dict.fromkeys(served, another.number))
        return another

    def _place(self, host: str) -> Place | None:
        try:
            reservation = self._engine.reserve([self._companion.need._replace(node=host)], None)
        except CannotPlace:
            return None
        if not reservation.places:
            self._engine.cancel_reservation(reservation.id)
        return next(iter(reservation.places), None)

    def _count_loss(self, why: str) -> None:
        items = sum(use.items for use in self._users.uses(self._engine.now()))
        self._losses = self._losses + 1 if items == self._items else 1
        self._items = items
        if self._losses >= START_FAILURES:
            raise EngineError(
                f"The worker that others use was lost {self._losses} times, and no item ended: {why}",
                hint="`shoal logs` has the whole story.",
            )

    def _block(self, users: Iterable[int], blocked: bool) -> None:
        for user in users:
            self._users.block(self._users.members[user], blocked)
