"""Which node has room for what: pure bookkeeping that every engine with nodes of its own shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from heapq import heapify, heappop, heappush, heapreplace

from shoal.errors import CannotPlace
from shoal.model import Asks, Need, Node, Place

SLACK = 1e-6

Found = list[tuple[str, tuple[str, ...]]]
"""A host and devices for each of some needs."""


class Room:
    """What is left on one node."""

    __slots__ = ("cpu", "devices", "index", "memory_bytes", "node")

    def __init__(self, node: Node, index: int = 0) -> None:
        self.node = node
        self.index = index
        self.cpu = node.cpu
        self.memory_bytes = node.memory_bytes
        names = node.devices or tuple(str(index) for index in range(node.gpu))
        self.devices = dict.fromkeys(names, 1.0)
        """How much of each GPU is free."""

    def fits(self, need: Need) -> bool:
        return (
            need.cpu <= self.cpu + SLACK
            and need.memory_bytes <= self.memory_bytes
            and need.refusal(self.node) is None
            and self.choose(need) is not None
        )

    def has(self, place: Place) -> bool:
        """Whether a place that was held here could be held again, on the devices it had."""
        share = min(1.0, place.need.gpu) - SLACK
        return (
            place.need.cpu <= self.cpu + SLACK
            and place.need.memory_bytes <= self.memory_bytes
            and all(self.devices.get(device, 0.0) >= share for device in place.devices)
        )

    def book(self, need: Need, devices: Iterable[str], sign: int = 1) -> None:
        """Take what a need asks for on these devices; with the sign -1, give it back."""
        self.cpu -= sign * need.cpu
        self.memory_bytes -= sign * need.memory_bytes
        for device in devices:
            if device in self.devices:
                self.devices[device] -= sign * min(1.0, need.gpu)

    def choose(self, need: Need) -> tuple[str, ...] | None:
        """Devices for a need: whole ones that nobody has a share of, or the fullest that has a share left."""
        if need.gpu <= 0:
            return ()
        if need.gpu < 1:
            sharing = [name for name, free in self.devices.items() if free >= need.gpu - SLACK]
            return (min(sharing, key=lambda name: self.devices[name]),) if sharing else None
        whole = [name for name, free in self.devices.items() if free >= 1.0 - SLACK]
        return tuple(whole[: int(need.gpu)]) if len(whole) >= need.gpu else None


class Rooms:
    """What is left on some nodes, kept place by place. The one with most CPU left is found without a search."""

    def __init__(self, nodes: Iterable[Node], held: Iterable[Place] = ()) -> None:
        self._rooms = {node.host: Room(node, index) for index, node in enumerate(nodes)}
        self._emptiest: list[tuple[float, int, Room]] = []
        """A heap with an entry for each room, and more whose CPU is no longer true."""
        self._log: list[tuple[Place, int]] | None = None
        for place in held:
            self.take(place)
        self._index()

    def take(self, place: Place) -> None:
        """A place is held; nothing happens where its node is not among these."""
        self._book(place, 1)

    def give(self, place: Place) -> None:
        self._book(place, -1)

    def node(self, host: str) -> Node:
        return self._rooms[host].node

    def has(self, place: Place) -> bool:
        """Whether a place could be taken as it is."""
        room = self._rooms.get(place.host)
        return room is not None and room.has(place)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is taken and given in this block is undone at its end. Trials nest."""
        outer, self._log = self._log, []
        try:
            yield
        finally:
            done, self._log = self._log, None
            for place, sign in reversed(done):
                self._book(place, -sign)
            self._log = outer

    def copy(self) -> Rooms:
        made = Rooms(room.node for room in self._rooms.values())
        for host, room in self._rooms.items():
            other = made._rooms[host]
            other.cpu, other.memory_bytes, other.devices = room.cpu, room.memory_bytes, dict(room.devices)
        made._index()
        return made

    def fit(
        self, needs: Sequence[Need], *, packed: bool = False, beside: Rooms | None = None
    ) -> Found | None:
        """A host and devices for each need, or None where they do not all fit; nothing is taken yet.

        The hardest needs choose first. Each goes to the node with the most CPU left, so that work spreads; or, packed,
        all go to as few nodes as can be found. With `beside`, they have to fit there on the same nodes, too.
        """
        order = sorted(
            range(len(needs)), key=lambda i: (-needs[i].gpu, -needs[i].cpu, -needs[i].memory_bytes)
        )
        found = None
        if packed:
            alike = all(need is needs[0] or need == needs[0] for need in needs)
            found = self._packed_alike(needs) if alike else self._packed(needs, order)
        return found or self._spread(needs, order, beside)

    def _spread(self, needs: Sequence[Need], order: Sequence[int], beside: Rooms | None) -> Found | None:
        found: Found = [("", ())] * len(needs)
        with self.trial(), nullcontext() if beside is None else beside.trial():
            for index in order:
                room = self._most_cpu(needs[index], beside)
                if room is None:
                    return None
                host, devices = found[index] = self._settle(room, needs[index])
                if beside is not None:
                    beside.take(Place(0, host, needs[index], devices))
        return found

    def _packed_alike(self, needs: Sequence[Need]) -> Found | None:
        """As `_packed`, for needs that are all the same: each node is looked at once."""
        every = range(len(needs))
        counts = [(len(_held(room, needs, every)), room) for room in self._rooms.values()]
        counts.sort(key=lambda entry: (-entry[0], entry[1].cpu))
        found: Found = []
        with self.trial():
            for position, (count, fullest) in enumerate(counts):
                left = len(needs) - len(found)
                room = fullest
                if count >= left:
                    last = (other for other_count, other in counts[position:] if other_count >= left)
                    room = min(last, key=lambda other: other.cpu)
                found += [self._settle(room, needs[0]) for _ in range(min(count, left))]
                if len(found) == len(needs):
                    return found
        return None

    def _packed(self, needs: Sequence[Need], order: Sequence[int]) -> Found | None:
        found: Found = [("", ())] * len(needs)
        left = list(order)
        with self.trial():
            while left:
                best: Room | None = None
                held: list[int] = []
                for room in self._rooms.values():
                    here = _held(room, needs, left)
                    if len(here) > len(held) or (
                        best is not None and here and len(here) == len(held) and room.cpu < best.cpu
                    ):
                        best, held = room, here
                if best is None:
                    return None
                for index in held:
                    found[index] = self._settle(best, needs[index])
                taken = set(held)
                left = [index for index in left if index not in taken]
        return found

    def _settle(self, room: Room, need: Need) -> tuple[str, tuple[str, ...]]:
        devices = room.choose(need) or ()
        self.take(Place(0, room.node.host, need, devices))
        return room.node.host, devices

    def _most_cpu(self, need: Need, beside: Rooms | None) -> Room | None:
        heap, passed, found = self._emptiest, [], None
        while heap and found is None:
            cpu, _, room = heap[0]
            if -cpu != room.cpu:
                heappop(heap)
            elif need.cpu > room.cpu + SLACK:
                break
            elif room.fits(need) and (beside is None or beside._fits(room.node.host, need)):
                found = room
            else:
                passed.append(heappop(heap))
        for entry in passed:
            heappush(heap, entry)
        return found

    def _fits(self, host: str, need: Need) -> bool:
        return host in self._rooms and self._rooms[host].fits(need)

    def _book(self, place: Place, sign: int) -> None:
        room = self._rooms.get(place.host)
        if room is None:
            return
        room.book(place.need, place.devices, sign)
        if self._log is not None:
            self._log.append((place, sign))
        heappush(self._emptiest, (-room.cpu, room.index, room))
        if len(self._emptiest) > 64 + 4 * len(self._rooms):
            self._index()

    def _index(self) -> None:
        self._emptiest = [(-room.cpu, room.index, room) for room in self._rooms.values()]
        heapify(self._emptiest)


def _held(room: Room, needs: Sequence[Need], left: Sequence[int]) -> list[int]:
    """Which of the needs that are left one node can hold together."""
    held: list[int] = []
    before = room.cpu, room.memory_bytes, dict(room.devices)
    refused: Need | None = None
    for index in left:
        need = needs[index]
        if need is refused or not room.fits(need):
            refused = need
            continue
        room.book(need, room.choose(need) or ())
        held.append(index)
    room.cpu, room.memory_bytes, room.devices = before
    return held


class Capacities:
    """How many workers empty nodes hold, remembered until there are other nodes."""

    def __init__(self) -> None:
        self._nodes: Sequence[Node] = ()
        self._counts: list[tuple[Need, int]] = []

    def of(self, need: Need, nodes: Sequence[Node]) -> int:
        """`nodes` is the same object as long as they are the same nodes."""
        if nodes is not self._nodes:
            self._nodes, self._counts = nodes, []
        for known, count in self._counts:
            if known is need or known == need:
                return count
        self._counts.append((need, capacity(need, nodes)))
        return self._counts[-1][1]

    def ensure_possible(self, needs: Sequence[Need], nodes: Sequence[Node], packed: bool = False) -> None:
        """As the function of that name."""
        if len(needs) != 1 or not self.of(needs[0], nodes):
            ensure_possible(needs, nodes, packed)


def capacity(need: Need, nodes: Iterable[Node]) -> int:
    """How many such workers the nodes hold when they are empty."""
    return sum(_copies(need, node) for node in nodes if need.refusal(node) is None)


def slots(asks: Asks, node: Node) -> int:
    """How many workers of those that are asked for the node holds when it is empty: of the sort it holds most of."""
    return max((capacity(need, [node]) for group in asks for need in group), default=0)


def _copies(need: Need, node: Node) -> int:
    limits = [10_000.0]
    if need.cpu > 0:
        limits.append((node.cpu + SLACK) / need.cpu)
    if need.gpu > 0:
        limits.append(node.gpu / need.gpu if need.gpu >= 1 else node.gpu * int((1 + SLACK) / need.gpu))
    if need.memory_bytes > 0:
        limits.append(node.memory_bytes / need.memory_bytes)
    return int(min(limits))


def spread(workers: int, room: Mapping[str, int]) -> dict[str, int]:
    """How many of so many workers each host gets that has room for some: one by one where the most is left."""
    if workers >= sum(room.values()):
        return dict(room)
    left = [(-count, host) for host, count in room.items()]
    heapify(left)
    found = dict.fromkeys(room, 0)
    for _ in range(workers):
        count, host = left[0]
        heapreplace(left, (count + 1, host))
        found[host] += 1
    return found


def ensure_possible(needs: Sequence[Need], nodes: Sequence[Node], packed: bool = False) -> None:
    """Raise `CannotPlace`, with the reason for each node, when empty nodes could not hold the needs."""
    for need in needs:
        refusals = [need.refusal(node) for node in nodes]
        if all(refusal is not None for refusal in refusals):
            reasons = "; ".join(str(refusal) for refusal in refusals) or "there are no nodes"
            raise CannotPlace(
                f"No node can hold a worker: {reasons}.",
                hint="Ask for less in resources:, change placement:, or add a node that has it.",
            )
    if Rooms(nodes).fit(needs, packed=packed) is None:
        raise CannotPlace(
            f"The nodes cannot hold these {len(needs)} workers at the same time, even when empty.",
            hint="Ask for fewer workers, or for less in resources:.",
        )
