"""Which node has room for what: pure bookkeeping that every engine with nodes of its own shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shoal.errors import CannotPlace
from shoal.model import Asks, Need, Node, Place

SLACK = 1e-6


class Room:
    """What is left on one node."""

    __slots__ = ("cpu", "devices", "memory_bytes", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cpu = node.cpu
        self.memory_bytes = node.memory_bytes
        names = node.devices or tuple(str(index) for index in range(node.gpu))
        self.devices = dict.fromkeys(names, 1.0)
        """How much of each GPU is free."""

    def fits(self, need: Need) -> bool:
        return (
            need.refusal(self.node) is None
            and need.cpu <= self.cpu + SLACK
            and need.memory_bytes <= self.memory_bytes
            and self._choose(need) is not None
        )

    def take(self, need: Need, devices: Sequence[str] | None = None) -> tuple[str, ...]:
        """Book a need here; the devices it got."""
        taken = (self._choose(need) or ()) if devices is None else tuple(devices)
        self.cpu -= need.cpu
        self.memory_bytes -= need.memory_bytes
        for device in taken:
            if device in self.devices:
                self.devices[device] -= min(1.0, need.gpu)
        return taken

    def _choose(self, need: Need) -> tuple[str, ...] | None:
        """Devices for a need: whole ones that nobody has a share of, or the fullest that has a share left."""
        if need.gpu <= 0:
            return ()
        if need.gpu < 1:
            sharing = [name for name, free in self.devices.items() if free >= need.gpu - SLACK]
            return (min(sharing, key=lambda name: self.devices[name]),) if sharing else None
        whole = [name for name, free in self.devices.items() if free >= 1.0 - SLACK]
        return tuple(whole[: int(need.gpu)]) if len(whole) >= need.gpu else None


def rooms(nodes: Iterable[Node], held: Iterable[Place] = ()) -> dict[str, Room]:
    """The room on each node after what is held there."""
    left = {node.host: Room(node) for node in nodes}
    for place in held:
        if place.host in left:
            left[place.host].take(place.need, place.devices)
    return left


def fit(needs: Sequence[Need], left: Mapping[str, Room]) -> list[tuple[str, tuple[str, ...]]] | None:
    """A host and devices for each need, or None where they do not all fit. Books what it finds in `left`, which is
    then of no further use when the answer is None.

    The hardest needs choose first; each goes to the node with the most CPU left, so that work spreads.
    """
    order = sorted(range(len(needs)), key=lambda i: (-needs[i].gpu, -needs[i].cpu, -needs[i].memory_bytes))
    found: list[tuple[str, tuple[str, ...]]] = [("", ())] * len(needs)
    for index in order:
        fitting = [room for room in left.values() if room.fits(needs[index])]
        if not fitting:
            return None
        best = max(fitting, key=lambda room: room.cpu)
        found[index] = (best.node.host, best.take(needs[index]))
    return found


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


def ensure_possible(needs: Sequence[Need], nodes: Sequence[Node]) -> None:
    """Raise `CannotPlace`, with the reason for each node, when empty nodes could not hold the needs."""
    for need in needs:
        refusals = [need.refusal(node) for node in nodes]
        if all(refusal is not None for refusal in refusals):
            reasons = "; ".join(str(refusal) for refusal in refusals) or "there are no nodes"
            raise CannotPlace(
                f"No node can hold a worker: {reasons}.",
                hint="Ask for less in resources:, change placement:, or add a node that has it.",
            )
    if fit(needs, rooms(nodes)) is None:
        raise CannotPlace(
            f"The nodes cannot hold these {len(needs)} workers at the same time, even when empty.",
            hint="Ask for fewer workers, or for less in resources:.",
        )
