"""What a run records beside its items: attempts that were not the last, and events with their reasons."""

from __future__ import annotations

from typing import NamedTuple

from shoal.model.outcome import LogSlice

NODE = "node "
"""Before the name of a node, as the subject of an event."""


class Attempt(NamedTuple):
    """An attempt at an item after which the item waited again."""

    attempt: int
    """As in the events of an engine: also counts attempts that were handed out in vain."""
    counted: int
    """Which of the attempts that count against `retries` it was (`SHOAL_ATTEMPT`)."""
    node: str
    started: float | None
    seconds: float | None
    """None where nobody was left to measure it."""
    how: str
    """How it ended: an `ItemState` where the item itself ended, else the `LostCause` of its worker."""
    error: str | None
    log: LogSlice | None


class RunEvent(NamedTuple):
    """Something that happened to a run and has a reason: a node that was started, a restart, a move, a new plan."""

    at: float
    subject: str
    """What it happened to, with its kind: `node NAME`."""
    what: str
    why: str
