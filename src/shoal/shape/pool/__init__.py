"""The pool: independent items, and long-lived workers that pull chunks of them."""

from __future__ import annotations

from shoal.shape.pool.pool import Pool
from shoal.shape.pool.values import Companion, Guide, Lane, Source

__all__ = ["Companion", "Guide", "Lane", "Pool", "Source"]
