"""How an attempt at an item ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

DEPTH = 100
"""How deep lists and dicts in a metric may be nested: deeper ones would be more than programs can go through."""


class LogSlice(NamedTuple):
    """Which part of a worker's log an item wrote. `end` is None while it runs."""

    file: str
    start: int
    end: int | None = None


class Outcome(NamedTuple):
    """The end of one attempt. `state` is an `ItemState` that is final."""

    state: str
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    seconds: float = 0.0
    log: LogSlice | None = None
    kept: bool = False
    """Whether the item left something in its folder."""
