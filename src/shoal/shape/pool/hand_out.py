"""Which workers get some of what waits, and how much at once. Takes it from the queue; handing it out is the pool's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from shoal.model import Item
from shoal.planner import chunks
from shoal.planner.durations import Durations
from shoal.shape.pool.queue import ReadyQueue
from shoal.shape.pool.values import Guide
from shoal.shape.roster import Member, Roster

STUCK_S = 0.2
"""An item that runs longer than this gives up the chunk-mates that wait behind it."""


class Hands(NamedTuple):
    """The workers that may be given items: how many, and each of them once, those with the fewest items first."""

    total: int
    members: Iterable[Member]


def at_hand(roster: Roster, guide: Guide | None) -> Hands:
    """All that are ready and stay, or as many of each node as the guide says.

    One that still starts gets nothing: what waits for it could be done by others meanwhile.
    """
    if guide is None:
        return Hands(roster.available, roster.by_load())
    ready = [member for member in roster.members.values() if member.ready_at is not None]
    active = [member for member in _guided(ready, guide) if not member.leaving and not member.recalled]
    return Hands(len(active), sorted(active, key=lambda member: len(member.flights)))


def pick(
    ready: ReadyQueue, durations: Durations, member: Member, hands: int, want: int, enough: int, now: float
) -> list[Item]:
    """The next items for one of so many workers: up to `want` in all, and beyond `enough` only short ones."""
    have = len(member.flights)
    picked: list[Item] = []
    budget = chunks.HORIZON_S
    while len(picked) + have < want:
        item = ready.pop(member.number, now, alone=hands == 1)
        if item is None:
            break
        expected = durations.expect(item) or 0.0
        if len(picked) + have >= enough and expected > budget:
            ready.push(item)
            break
        budget -= expected
        picked.append(item)
    return picked


def _guided(ready: list[Member], guide: Guide) -> list[Member]:
    """As many of each node as the guide says. Those that are at work count until they are gone."""
    by_host: dict[str, list[Member]] = {}
    # Those that have worked before come first: they have loaded what others would have to load.
    for member in sorted(ready, key=lambda member: (not member.items and not member.flights, member.number)):
        if member.flights or not member.leaving:
            by_host.setdefault(member.node, []).append(member)
    return [
        member
        for host, here in by_host.items()
        for member in _spread(here)[: max(1, guide.active(host, len(here)))]
    ]


def _spread(members: list[Member]) -> list[Member]:
    """Each GPU's first one, then each one's second: a few of them use all GPUs. Otherwise in the same order."""
    before: Counter[tuple[str, ...]] = Counter()
    turns = []
    for member in members:
        turns.append(before[member.place.devices])
        before[member.place.devices] += 1
    return [members[index] for index in sorted(range(len(members)), key=turns.__getitem__)]
