"""Which of the waiting items one worker is handed in one go."""

from __future__ import annotations

from shoal.model import Item
from shoal.plan import chunking
from shoal.plan.durations import Durations
from shoal.shape.pool.crew import Member
from shoal.shape.pool.ready import ReadyQueue

STUCK_S = 0.2
"""An item that runs longer than this gives up the chunk-mates that wait behind it."""


def chunk_for(
    member: Member, members: int, ready: ReadyQueue, durations: Durations, latency_s: float, now: float
) -> list[Item]:
    """Taken from what is ready: enough to keep the worker busy until the next, and no more than it does soon."""
    want = chunking.ahead(durations.mean_s, len(ready), members, latency_s)
    enough = chunking.at_least(durations.mean_s, latency_s)
    have = len(member.flights)
    if have > want // 2 or member.ran_s(now) > STUCK_S:
        return []
    chunk: list[Item] = []
    budget = chunking.HORIZON_S
    while len(chunk) + have < want:
        item = ready.pop(member.number, now, alone=members == 1)
        if item is None:
            break
        expected = durations.expect(item) or 0.0
        if len(chunk) + have >= enough and expected > budget:
            ready.push(item)
            break
        budget -= expected
        chunk.append(item)
    return chunk
