"""What each driver holds and waits for, and the table of it that decisions about leases are made from: values and sums.

Where a table is kept, so that all drivers of some nodes see the same one, each engine knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from shoal.engine.room import Rooms
from shoal.errors import CannotPlace
from shoal.model import Need, Node, Place

PROTOCOL = 2
"""Part of the name of every table: a driver that keeps another protocol does not understand these claims."""
SLACK = 1e-6
TURN_S = 60.0
"""A run that has had no worker for so long stands in line with those that stand together, for one item."""


def other_protocol(where: str, who: str) -> CannotPlace:
    """The error for nodes that are in use under another protocol."""
    return CannotPlace(
        f"Another version of Shoal is at work on {where} ({who}), and the two cannot agree on who gets what.",
        hint="Wait until its runs have ended, or use that version.",
    )


class Ask(NamedTuple):
    """A reservation that waits."""

    id: int
    needs: tuple[Need, ...]
    since: float
    together: bool = False
    """Whether it stands in line, and gets places that nobody may take away."""
    lasts_s: float | None = None
    """How long the places will be held, where that is known."""


class Hold(NamedTuple):
    """A place that a driver has."""

    place: Place
    firm: bool = False
    until: float | None = None
    """When it will be given back, where that is known."""
    used: bool = False
    """Whether a worker is on it. Only such a place can be asked for."""
    leaving: bool = False
    """Whether it was asked for."""


class Claim:
    """One driver's holds, oldest first, and asks, with their sums."""

    __slots__ = ("amount", "asks", "firm", "holds", "leaving", "line", "wanted", "weight")

    def __init__(self, weight: float = 1.0, holds: Iterable[Hold] = (), asks: Iterable[Ask] = ()) -> None:
        self.weight = weight
        self.holds: dict[int, Hold] = {}
        self.leaving: dict[int, Hold] = {}
        self.asks: dict[int, Ask] = {}
        """Without those in line."""
        self.line: dict[int, Ask] = {}
        self.amount = Amount()
        """Of the holds that stay."""
        self.firm = Amount()
        self.wanted = Amount()
        """Of the asks that do not stand in line."""
        for hold in holds:
            self.hold(hold)
        for ask in asks:
            self.ask(ask)

    def hold(self, hold: Hold) -> None:
        """A new hold, or what one has become."""
        self.drop(hold.place.id, forget=False)
        self.holds[hold.place.id] = hold
        self._count(hold, 1)

    def drop(self, place: int, *, forget: bool = True) -> Hold | None:
        hold = self.holds.get(place)
        if hold is not None:
            self._count(hold, -1)
            if forget:
                del self.holds[place]
        return hold

    def _count(self, hold: Hold, sign: int) -> None:
        if hold.leaving:
            if sign > 0:
                self.leaving[hold.place.id] = hold
            else:
                del self.leaving[hold.place.id]
            return
        self.amount = self.amount.plus(hold.place.need, sign)
        if hold.firm:
            self.firm = self.firm.plus(hold.place.need, sign)

    def ask(self, ask: Ask) -> None:
        if ask.together:
            self.line[ask.id] = ask
        else:
            self.asks[ask.id] = ask
            self.wanted = self.wanted.plus(amount(ask.needs))

    def withdraw(self, ask: int) -> None:
        if self.line.pop(ask, None) is None and (gone := self.asks.pop(ask, None)) is not None:
            self.wanted = self.wanted.plus(amount(gone.needs), -1)


class Table:
    """The claims of all drivers of some nodes. `left` is what is really free, where others than these drivers use the
    nodes, too; after `patience_s` a run that holds nothing may have one worker more than there is room for."""

    def __init__(
        self,
        nodes: Sequence[Node],
        claims: Mapping[str, Claim] | None = None,
        *,
        left: Rooms | None = None,
        patience_s: float = inf,
    ) -> None:
        self.nodes = nodes
        self.claims = dict(claims or {})
        held = (hold.place for claim in self.claims.values() for hold in claim.holds.values())
        self.rooms = Rooms(nodes, held)
        self.left = left or self.rooms
        self.patience_s = patience_s
        self.total = amount(nodes)

    def hold(self, me: str, hold: Hold) -> None:
        """A new hold, or what one has become."""
        if hold.place.id not in self.claims[me].holds:
            self.rooms.take(hold.place)
            if self.left is not self.rooms:
                self.left.take(hold.place)
        self.claims[me].hold(hold)

    def drop(self, me: str, place: int) -> None:
        hold = self.claims[me].drop(place)
        if hold is not None:
            self.rooms.give(hold.place)
            if self.left is not self.rooms:
                self.left.give(hold.place)

    def ask(self, me: str, ask: Ask) -> None:
        self.claims[me].ask(ask)

    def withdraw(self, me: str, ask: int) -> None:
        self.claims[me].withdraw(ask)

    def line(self) -> list[tuple[float, str, Ask]]:
        """The reservations that stand together, first come first, and among them the runs that wait for their turn."""
        found = [(ask.since, name, ask) for name, claim in self.claims.items() for ask in claim.line.values()]
        for name, claim in self.claims.items() if found else ():
            if claim.asks and not claim.holds:
                ask = next(iter(claim.asks.values()))
                found.append((ask.since + TURN_S, name, ask))
        return sorted(found, key=lambda entry: (entry[0], entry[2].id, entry[1]))

    def leaving(self) -> Iterator[Hold]:
        return (hold for claim in self.claims.values() for hold in claim.leaving.values())

    def shares(self) -> dict[str, float]:
        """What each driver is owed, as a part of the whole."""
        claims = self.claims.items()
        return fair_shares(
            1.0,
            {name: claim.amount.plus(claim.wanted).part_of(self.total) for name, claim in claims},
            {name: claim.firm.part_of(self.total) for name, claim in claims},
            {name: claim.weight for name, claim in claims},
        )


class Amount(NamedTuple):
    """Of each resource."""

    cpu: float = 0.0
    gpu: float = 0.0
    memory_bytes: float = 0.0

    def plus(self, other: Need | Amount, sign: int = 1) -> Amount:
        return Amount(
            self.cpu + sign * other.cpu,
            self.gpu + sign * other.gpu,
            self.memory_bytes + sign * other.memory_bytes,
        )

    def part_of(self, total: Amount) -> float:
        """The largest part that this is of any resource."""
        return (
            max(mine / all_ for mine, all_ in zip(self, total, strict=True) if all_ > 0)
            if any(total)
            else 0.0
        )


def amount(needs: Iterable[Need | Node]) -> Amount:
    cpu = gpu = memory_bytes = 0.0
    for need in needs:
        cpu += need.cpu
        gpu += need.gpu
        memory_bytes += need.memory_bytes
    return Amount(cpu, gpu, memory_bytes)


def fair_shares(
    total: float,
    wants: Mapping[str, float],
    floors: Mapping[str, float] | None = None,
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """A level rises for all alike, by weight, until everything is given out: nobody gets more than wanted, nor less
    than its floor, which is what nobody can take away."""
    floors, weights = floors or {}, weights or {}
    weight = {name: weights.get(name, 1.0) for name in wants}
    floor = {name: min(floors.get(name, 0.0), wants[name]) for name in wants}
    edges = [(floor[name] / weight[name], weight[name]) for name in wants]
    edges += [(wants[name] / weight[name], -weight[name]) for name in wants]
    level = slope = 0.0
    left = total - sum(floor.values())
    for at, change in sorted(edges, key=lambda edge: edge[0]):
        if left <= 0 or slope * (at - level) >= left:
            break
        left -= slope * (at - level)
        level = at
        slope += change
    if left > 0 and slope > SLACK:
        level += left / slope
    return {name: min(wants[name], max(floor[name], level * weight[name])) for name in wants}
