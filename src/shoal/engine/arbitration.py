"""Who may take what, who has to give back, who stands in line: decisions about a table of claims, for every engine.

Pools share by fairness, and give back their youngest workers. Reservations that stand together are served in line,
first come first: what comes free is kept for the first of them, and pools make room for it, down to no worker at all.
A pool that has had none for a while takes its turn in that line: it is lent one place, for one item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.engine.claims import SLACK, Amount, Ask, Hold, Table, amount
from shoal.engine.room import Found, Rooms
from shoal.model import Need, Place


class First(NamedTuple):
    """The first in line, and how it will get its places."""

    driver: str
    ask: Ask
    places: tuple[Place, ...]
    """Where they will be; they have no number yet."""
    beside: Rooms
    """What is left for others while they are kept."""
    asked: tuple[tuple[str, Hold], ...]
    """What has to be given back for it. Nothing, while somebody is in the way who holds firmly."""


def grants(
    table: Table, asks: Iterable[tuple[str, Ask]], numbers: Iterator[int], now: float
) -> Iterator[tuple[str, Ask, tuple[Place, ...]]]:
    """Those of the asks that get their places now, one after the other; the table has them then."""
    refused: dict[str, Ask] = {}
    for me, ask in asks:
        if me in refused and refused[me]._replace(id=ask.id, since=ask.since) == ask:
            continue  # Behind its like, it waits as well.
        first = first_in_line(table)
        found = find(table, me, ask, first, now)
        lent = not ask.together and _is_turn(first, me, ask)
        if found is None:
            lent = (found := loan(table, me, ask, first, now)) is not None
        if found is None:
            refused[me] = ask
            continue
        until = None if ask.lasts_s is None else now + ask.lasts_s
        places = tuple(
            Place(next(numbers), host, need, devices, lent)
            for need, (host, devices) in zip(ask.needs, found, strict=True)
        )
        table.withdraw(me, ask.id)
        for place in places:
            table.hold(me, Hold(place, ask.together, until, leaving=lent))
        yield me, ask, places


def find(table: Table, me: str, ask: Ask, first: First | None, now: float) -> Found | None:
    """A host and devices for each need of the ask, if there is room and nobody else is owed it."""
    if ask.together or _is_turn(first, me, ask):
        return table.left.fit(ask.needs, packed=True) if _is_turn(first, me, ask) else None
    claim = table.claims[me]
    found = table.left.fit(ask.needs, beside=None if first is None else first.beside)
    if found is not None and _is_fair(table, me, ask, found):
        return found
    if not claim.holds and len(ask.needs) == 1 and now - ask.since >= table.patience_s:
        return _beyond(table, first).fit(ask.needs)
    return None


def _is_turn(first: First | None, me: str, ask: Ask) -> bool:
    return first is not None and (first.driver, first.ask.id) == (me, ask.id)


def loan(table: Table, me: str, ask: Ask, first: First | None, now: float) -> Found | None:
    """As `find`, of what is kept for the first in line, where it will be given back before that could start."""
    if first is None or ask.together or ask.lasts_s is None:
        return None
    found = table.left.fit(ask.needs)
    if found is None or not _is_fair(table, me, ask, found):
        return None
    return found if now + ask.lasts_s <= _earliest_start(table, first.ask) else None


def _earliest_start(table: Table, ask: Ask) -> float:
    """When there will be room for those that stand together; what nobody knows the end of may go at any moment."""
    holds = [(name, hold) for name, claim in table.claims.items() for hold in claim.holds.values()]
    holds.sort(key=lambda entry: entry[1].until or 0.0)
    with table.rooms.trial():
        going, _ = _make_room(table.rooms, ask.needs, holds, packed=True) or ((), ())
    return max((hold.until or 0.0 for _, hold in going), default=0.0)


def recalls(table: Table) -> list[tuple[str, Hold]]:
    """The holds that drivers are asked to give back from now on; the table has them as leaving then."""
    first = first_in_line(table)
    asked = list(first.asked) if first is not None else []
    _leave(table, asked)
    shares = table.shares()
    due = [(ask.since, name, ask) for name in table.claims for ask in _due(table, name, shares)]
    if not due:
        return asked
    with table.rooms.trial():
        for hold in table.leaving():
            table.rooms.give(hold.place)
        for place in first.places if first is not None else ():
            table.rooms.take(place)
        for _, name, ask in sorted(due, key=lambda entry: (entry[0], entry[2].id, entry[1])):
            if (found := table.rooms.fit(ask.needs)) is not None:
                for place in _places(ask.needs, found):
                    table.rooms.take(place)
                continue
            made = _make_room(table.rooms, ask.needs, _owed(table, name, shares))
            if made is not None:
                _leave(table, made[0])
                asked += made[0]
    return asked


def first_in_line(table: Table) -> First | None:
    """The oldest of those in line that the nodes could hold, were nobody else there."""
    for _, name, ask in table.line() if any(claim.line for claim in table.claims.values()) else ():
        with table.rooms.trial():
            for hold in table.leaving():
                table.rooms.give(hold.place)
            made = _make_room(table.rooms, ask.needs, (), packed=True)
            holds = _recallable(table) if made is None else []
            made = made or _make_room(table.rooms, ask.needs, holds, packed=True)
            if made is not None:
                asked, places = made
                return First(name, ask, places, table.rooms.copy(), tuple(asked))
            for _, hold in holds:
                table.rooms.give(hold.place)
            made = _make_room(table.rooms, ask.needs, _lasting(table), packed=True)
            if made is None:
                continue
            _, places = made
            for _, hold in reversed(holds):
                if table.rooms.has(hold.place):
                    table.rooms.take(hold.place)
            return First(name, ask, places, table.rooms.copy(), ())
    return None


def _is_fair(table: Table, me: str, ask: Ask, found: Found) -> bool:
    """Whether others that are below their share still find what they are owed after this.

    A run that holds nothing may always take its first worker where there is room.
    """
    mine = table.claims[me]
    if not mine.holds or not any(claim.asks for claim in table.claims.values() if claim is not mine):
        return True
    asked = amount(ask.needs)
    shares = table.shares()
    if mine.amount.plus(asked).part_of(table.total) <= shares[me] + SLACK:
        return True
    nodes = [table.rooms.node(host) for host in {host for host, _ in found}]
    owed = amount(
        need
        for name in table.claims
        if name != me
        for due in _due(table, name, shares)
        for need in due.needs
        if any(need.refusal(node) is None for node in nodes)
    )
    held = Amount()
    for claim in table.claims.values():
        held = held.plus(claim.amount).plus(amount(hold.place.need for hold in claim.leaving.values()))
    free = table.total.plus(held, -1)
    return all(
        not (more and due) or left - more >= due - SLACK
        for left, more, due in zip(free, asked, owed, strict=True)
    )


def _due(table: Table, name: str, shares: Mapping[str, float]) -> list[Ask]:
    """The asks that a driver is owed: the first of one that has nothing, and those within its share."""
    claim = table.claims[name]
    due: list[Ask] = []
    would = claim.amount
    for ask in claim.asks.values():
        would = would.plus(amount(ask.needs))
        if (claim.holds or due) and would.part_of(table.total) > shares[name] + SLACK:
            break
        due.append(ask)
    return due


def _owed(table: Table, name: str, shares: Mapping[str, float]) -> list[tuple[str, Hold]]:
    """What a driver may be given of what others hold, in the order in which it is asked for.

    One that has nothing gets its first worker from whoever has two; others get what is held above a share.
    """
    asker = table.claims[name]
    spare = {
        other: claim.amount.part_of(table.total) - shares[other] for other, claim in table.claims.items()
    }
    found = []
    for other, hold in _recallable(table, but=name, last=False):
        part = amount([hold.place.need]).part_of(table.total)
        if not asker.holds or part <= spare[other] + SLACK:
            spare[other] -= part
            found.append((other, hold))
    return found


def _recallable(table: Table, *, but: str | None = None, last: bool = True) -> list[tuple[str, Hold]]:
    """Workers that may be asked to leave: first those of the driver with most, the youngest first, and each driver's
    last one after all others; without these where `last` is False."""
    found: list[tuple[bool, float, str, Hold]] = []
    for name, claim in table.claims.items():
        if name == but:
            continue
        staying = claim.amount
        count = len(claim.holds) - len(claim.leaving)
        for hold in reversed(claim.holds.values()):
            if hold.firm or hold.leaving or not hold.used:
                continue
            if count > 1 or last:
                share = staying.part_of(table.total) / claim.weight
                found.append((count <= 1, -share, name, hold))
            staying = staying.plus(hold.place.need, -1)
            count -= 1
    found.sort(key=lambda entry: entry[:2])
    return [(name, hold) for _, _, name, hold in found]


def _lasting(table: Table) -> list[tuple[str, Hold]]:
    """What nobody can be asked for, what ends first before what ends later, or nobody knows when."""
    found = [
        (name, hold)
        for name, claim in table.claims.items()
        for hold in claim.holds.values()
        if (hold.firm or not hold.used) and not hold.leaving
    ]
    return sorted(found, key=lambda entry: (entry[1].until is None, entry[1].until or 0.0))


def _make_room(
    rooms: Rooms, needs: Sequence[Need], holds: Sequence[tuple[str, Hold]], *, packed: bool = False
) -> tuple[list[tuple[str, Hold]], tuple[Place, ...]] | None:
    """Which of the holds have to go so that the needs fit, and where they will be; both are done in `rooms` then.

    No later one goes where the earlier ones suffice, and none that is of no help. None where not even all suffice.
    """
    if holds and not _suffices(rooms, needs, holds, packed):
        return None
    low, high = 0, len(holds)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _suffices(rooms, needs, holds[:middle], packed) else (middle + 1, high)
    for _, hold in holds[:low]:
        rooms.give(hold.place)
    found = rooms.fit(needs, packed=packed)
    if found is None:
        return None
    places = _places(needs, found)
    for place in places:
        rooms.take(place)
    going = []
    for name, hold in reversed(holds[:low]):
        if rooms.has(hold.place):
            rooms.take(hold.place)
        else:
            going.append((name, hold))
    return going, places


def _places(needs: Sequence[Need], found: Found) -> tuple[Place, ...]:
    """As they will be; they have no number yet."""
    return tuple(Place(0, host, need, devices) for need, (host, devices) in zip(needs, found, strict=True))


def _suffices(rooms: Rooms, needs: Sequence[Need], holds: Sequence[tuple[str, Hold]], packed: bool) -> bool:
    with rooms.trial():
        for _, hold in holds:
            rooms.give(hold.place)
        return rooms.fit(needs, packed=packed) is not None


def _beyond(table: Table, first: First | None) -> Rooms:
    """The room for one worker more than there is room for: CPU that is held may be had again, unless firmly."""
    held = [hold for claim in table.claims.values() for hold in claim.holds.values()]
    places = [
        hold.place if hold.firm else hold.place._replace(need=hold.place.need._replace(cpu=0.0))
        for hold in held
    ]
    return Rooms(table.nodes, [*places, *(first.places if first is not None else ())])


def _leave(table: Table, asked: Iterable[tuple[str, Hold]]) -> None:
    for name, hold in asked:
        table.hold(name, hold._replace(leaving=True))
