"""An item with everything recorded of it: a value, the same from every journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.model import Item, LogSlice


class ItemRecord(NamedTuple):
    """`item.attempt` is the newest attempt that is recorded; times are None until it started."""

    item: Item
    state: str
    node: str | None = None
    started: float | None = None
    seconds: float | None = None
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    log: LogSlice | None = None
    kept: bool = False


class Report(NamedTuple):
    """What `shoal.report` told once."""

    attempt: int
    step: int | None
    at: float
    metrics: Mapping[str, Any]
