"""An item with everything recorded of it: a value, the same from every journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.model import Item, ItemState, LogSlice
from shoal.model.states import FINAL

_COUNTED = FINAL - {ItemState.STOPPED}
"""States whose attempt is among those used."""


def no_items() -> dict[str, int]:
    """A count of items by state that begins at nothing. Its keys are plain text, with which dicts are fastest."""
    return dict.fromkeys(map(str, ItemState), 0)


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

    @property
    def attempt(self) -> int:
        """Which attempt people see."""
        return counted_attempt(self.state, self.item.used, self.started)


def counted_attempt(state: str, used: int, started: float | None) -> int:
    """Of the attempts that count, the one that a state is from. One that was handed out in vain is none."""
    if state in _COUNTED:
        return max(1, used)
    return used if started is None else used + 1


class Report(NamedTuple):
    """What `shoal.report` told once."""

    attempt: int
    step: int | None
    at: float
    metrics: Mapping[str, Any]
