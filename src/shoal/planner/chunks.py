"""How much to hand to a worker at once: so much that it costs little, so little that the tail stays short."""

from __future__ import annotations

HORIZON_S = 0.05
"""A worker has about this much work ahead of it, no more: what it holds, another cannot take."""
MOST_ITEMS = 1000
FIRST = 1
IDLE_SHARE = 0.06
"""A worker may be idle for this share of an item's time while the next one is on its way."""

PLENTY = 10_000
"""So many waiting items are enough to choose the longest from."""

SYNC_S = 0.01
"""About how long it takes until a new item is durable, before which no worker gets it."""


def at_least(mean_s: float | None, latency_s: float) -> int:
    """How many items a worker should have whatever they take: the next one, too, where it would be long on its way."""
    return 1 if mean_s is None or latency_s <= IDLE_SHARE * mean_s else 2


def ahead(mean_s: float | None, waiting: int, workers: int, latency_s: float = 0.0, least: int = 1) -> int:
    """How many items a worker should have in all, the running one included; `least` where there are enough for all.

    One while nothing is known; then what fits the horizon; at the end an even share of what is left. `latency_s` is
    how long a worker that has nothing waits for what it is given.
    """
    share = waiting / (2 * max(workers, 1))
    if mean_s is None:
        return max(FIRST, least if waiting >= workers else 1)
    by_time = HORIZON_S / max(mean_s, HORIZON_S / MOST_ITEMS)
    by_time = max(by_time, at_least(mean_s, latency_s), least)
    fair = max(int(share) + 1, least if waiting >= workers else 1)
    return max(1, min(MOST_ITEMS, int(by_time), fair))


def in_reserve(mean_s: float | None, within_s: float) -> int:
    """How many items more a worker will take `within_s`: they should be durable before it asks for them.

    None where items are so long that it may wait for a sync: what is chosen later is chosen knowing more.
    """
    if mean_s is None or IDLE_SHARE * mean_s >= SYNC_S:
        return 0
    return min(MOST_ITEMS, 1 + int(within_s / max(mean_s, HORIZON_S / MOST_ITEMS)))
