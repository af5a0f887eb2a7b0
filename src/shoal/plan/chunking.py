"""How much to hand to a worker at once: so much that it costs little, so little that the tail stays short."""

from __future__ import annotations

HORIZON_S = 0.05
"""A worker has about this much work ahead of it, no more: what it holds, another cannot take."""
MOST_ITEMS = 1000
FIRST = 1


def ahead(mean_s: float | None, waiting: int, workers: int) -> int:
    """How many items a worker should have in all, the running one included.

    One while nothing is known; then what fits the horizon; at the end an even share of what is left.
    """
    if mean_s is None:
        return FIRST
    by_time = HORIZON_S / max(mean_s, HORIZON_S / MOST_ITEMS)
    share = waiting / (2 * max(workers, 1))
    return max(1, min(MOST_ITEMS, int(by_time), int(share) + 1))
