"""The pool: independent items, and long-lived workers that pull chunks of them."""

from __future__ import annotations

from shoal.shape.pool.pool import Pool
from shoal.shape.pool.values import Ended, Guide, Policy, Progress, Running, Source, Watcher

__all__ = ["Ended", "Guide", "Policy", "Pool", "Progress", "Running", "Source", "Watcher"]
