"""How much of what waits a worker gets at once. Takes it from the queue; handing it out is the pool's."""

from __future__ import annotations

from shoal.model import Item
from shoal.plan import chunking
from shoal.plan.durations import Durations
from shoal.shape.pool.crew import Member
from shoal.shape.pool.ready import ReadyQueue

STUCK_S = 0.2
"""An item that runs longer than this gives up the chunk-mates that wait behind it."""


def pick(
    ready: ReadyQueue, durations: Durations, member: Member, members: int, latency_s: float, now: float
) -> list[Item]:
    """The next items for one of so many workers; none while it has enough, or is stuck."""
    want = chunking.ahead(durations.mean_s, len(ready), members, latency_s)
    enough = chunking.at_least(durations.mean_s, latency_s)
    have = len(member.flights)
    if have > want // 2 or member.ran_s(now) > STUCK_S:
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
