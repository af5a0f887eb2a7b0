"""States of items and runs, and causes of a worker's loss: every word for them, and what each implies.

Members are strings, equal to the text that is recorded, sent and printed. What a database or a message brings is
compared with them as it comes; nothing is converted on the way of an item.
"""

from __future__ import annotations

from enum import StrEnum


class _Word(StrEnum):
    """A string with a fixed set of values. In messages and on a Python prompt it shows as plain text."""

    __repr__ = str.__repr__


class ItemState(_Word):
    """What has become of an item."""

    WAITING = "waiting"
    """To be handed out, for the first time or again."""
    RUNNING = "running"
    DONE = "done"
    """The attempt returned."""
    FAILED = "failed"
    """The last attempt that `retries` allows failed, crashed or took too long."""
    CACHED = "cached"
    """Its result is taken from an earlier run; no worker ran it."""
    PRUNED = "pruned"
    """Ended early, as it promised nothing."""
    STOPPED = "stopped"
    """Ended because the run was stopped. The next driver runs it again."""

    @property
    def is_final(self) -> bool:
        """Whether the item stays in this state under the driver that gave it."""
        return self not in (ItemState.WAITING, ItemState.RUNNING)

    @property
    def is_unfinished(self) -> bool:
        """Whether the next driver goes on with the item."""
        return self in (ItemState.WAITING, ItemState.RUNNING, ItemState.STOPPED)

    @property
    def has_result(self) -> bool:
        """Whether the item has the metrics that were asked for."""
        return self in (ItemState.DONE, ItemState.CACHED)


FINAL = frozenset(state for state in ItemState if state.is_final)
UNFINISHED = tuple(state for state in ItemState if state.is_unfinished)
WITH_RESULT = tuple(state for state in ItemState if state.has_result)


class RunState(_Word):
    """How a run is."""

    QUEUED = "queued"
    """Its driver has not begun."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody stopped it; `shoal resume` goes on with it."""
    INTERRUPTED = "interrupted"
    """Its driver is gone without a word; `shoal resume` goes on with it."""

    @property
    def is_active(self) -> bool:
        """Whether a driver works on the run, or is about to."""
        return self in (RunState.QUEUED, RunState.RUNNING)

    @property
    def has_ended(self) -> bool:
        """Whether its last driver said how it ended."""
        return not self.is_active and self is not RunState.INTERRUPTED


class LostCause(_Word):
    """Why a worker is gone."""

    ENDED = "ended"
    """It was asked to end."""
    CRASH = "crash"
    """It died by itself: the running item is to blame."""
    KILLED = "killed"
    """By `Engine.kill`."""
    START = "start"
    """Its factory failed."""
    NODE = "node"
    """Its node is gone. No item is to blame."""
    DRIVER = "driver"
    """Its driver is gone, and it with it. No engine says so: the next driver records it."""
    ROOM = "room"
    """Memory does not suffice for it beside the others of its node. No item is to blame."""
