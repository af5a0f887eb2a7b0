"""Which workers get some of what waits, and how much at once. Takes it from the queue; handing it out is the pool's."""

from __future__ import annotations

from collections import Counter

from shoal.model import Item
from shoal.plan import chunking
from shoal.plan.durations import Durations
from shoal.shape.pool.crew import Crew, Member
from shoal.shape.pool.ready import ReadyQueue
from shoal.shape.pool.values import Guide

STUCK_S = 0.2
"""An item that runs longer than this gives up the chunk-mates that wait behind it."""


def pick(
    ready: ReadyQueue,
    durations: Durations,
    member: Member,
    members: int,
    latency_s: float,
    now: float,
    least: int = 1,
) -> list[Item]:
    """The next items for one of so many workers; none while it has enough, or is stuck with more than `least`."""
    want = chunking.ahead(durations.mean_s, len(ready), members, latency_s, least)
    enough = max(least, chunking.at_least(durations.mean_s, latency_s))
    have = len(member.flights)
    if have > want // 2 or (have >= least and member.ran_s(now) > STUCK_S):
        return []
    picked: list[Item] = []
    budget = chunking.HORIZON_S
    while len(picked) + have < want:
        item = ready.pop(member.number, now, alone=members == 1)
        if item is None:
            break
        expected = durations.expect(item) or 0.0
        if len(picked) + have >= enough and expected > budget:
            ready.push(item)
            break
        budget -= expected
        picked.append(item)
    return picked


def at_hand(crew: Crew, guide: Guide | None) -> list[Member]:
    """Those that may be given items: all that are ready and stay, or as many of each node as the guide says.

    One that still starts gets nothing: what waits for it could be done by others meanwhile.
    """
    ready = [member for member in crew.members.values() if member.ready_at is not None]
    if guide is not None:
        ready = _guided(ready, guide)
    return [member for member in ready if not member.leaving and not member.recalled]


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


def has_too_many(member: Member, crew: Crew, guide: Guide | None, nothing_left: bool) -> bool:
    """Whether a worker whose item runs long should give back what waits behind it."""
    least = 1 if guide is None else guide.ahead()
    if least > 1 and nothing_left:
        others = (each for each in at_hand(crew, guide) if each is not member)
        least = 1 if any(not each.flights for each in others) else least  # Others could do it now.
    return len(member.flights) > least
