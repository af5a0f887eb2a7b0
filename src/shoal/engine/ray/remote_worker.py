"""A worker behind an actor, as its driver sees it: what it said, what it is to be sent, what else arrives."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import ray

from shoal.engine.ray.checkpoints import Home
from shoal.engine.workers.messages import Chunk, Entry, Freight, Given, Kill, Log, Parcel, Passed, Stored
from shoal.engine.workers.parcels import NotTaken, Parcels
from shoal.engine.workers.worker_links import Known
from shoal.model import (
    Event,
    FactsChanged,
    ItemEnded,
    ItemProgressed,
    ItemStarted,
    ItemState,
    LostCause,
    Place,
    WorkerReady,
)

HEAR_S = 5.0
"""How long an actor has to hear that its worker is to be killed."""
GONE_S = 180.0
"""How long it may then say nothing until it is gone: it may be bringing a checkpoint to safety."""
WINDOW_S = 60.0
"""Seconds for which a measured clock offset is used, at most twice that: machines are suspended, and clocks drift."""


class RemoteWorker(Known):
    """One worker. For the one loop that owns the engine; nothing here blocks."""

    __slots__ = (
        "_kill",
        "_killed_at",
        "_outbox",
        "actor",
        "arrivals",
        "clock",
        "heard",
        "heard_at",
        "stream",
        "stuck_since",
        "taking",
    )

    def __init__(
        self, number: int, place: Place, log_file: str, actor: Any, stream: Any, arrivals: Arrivals
    ) -> None:
        super().__init__(number, place, log_file)
        self.actor = actor
        self.stream = stream
        self.arrivals = arrivals
        self.clock = Clock()
        self.heard: deque[Passed] = deque()
        """What it said and nobody has gone through yet."""
        self.heard_at = 0.0
        self.stuck_since: float | None = None
        """Since when the first of these cannot be written."""
        self.taking: Any = None
        """The answer to the message before the next in the outbox: large ones overtake each other otherwise."""
        self._outbox: deque[Iterator[Given]] = deque()
        self._kill: Any = None
        """The answer to the request to kill it."""
        self._killed_at = 0.0

    def send(self, message: Given) -> None:
        """After what is still to be sent."""
        if isinstance(message, Chunk):  # Plain tuples are pickled several times faster than named ones.
            message = Chunk([cast(Entry, tuple(entry)) for entry in message.entries])
        if self._outbox:
            self._outbox.append(iter([message]))
        else:
            self.actor.send.remote(message)

    def send_all(self, told: Iterator[Given]) -> None:
        """Messages that are large: each is made when the one before has arrived. `pump` keeps it going."""
        self._outbox.append(told)
        self.pump()

    def pump(self) -> None:
        """Send the next of what is still to be sent, if the last has arrived."""
        if self.taking is not None and not ray.wait([self.taking], timeout=0)[0]:
            return
        self.taking = None
        while self._outbox and self.taking is None:
            message = next(self._outbox[0], None)
            if message is None:
                self._outbox.popleft()
            else:
                self.taking = self.actor.send.remote(message)

    def kill(self, now: float) -> None:
        """Ask the actor to kill the process. May be called again, and asks once."""
        if self._kill is None:
            self.cause = LostCause.KILLED
            self._killed_at = now
            self._kill = self.actor.send.remote(Kill())

    def is_deaf(self, now: float) -> bool:
        """Whether it was asked to kill its process and does not answer (its start may hang), or does not go."""
        if self._kill is None or now - self._killed_at <= HEAR_S:
            return False
        silent_s = now - max(self._killed_at, self.heard_at)
        return silent_s > GONE_S or not ray.wait([self._kill], timeout=0)[0]


_OF_ITEMS = (ItemStarted, ItemEnded, ItemProgressed)
_TIMED = (*_OF_ITEMS, WorkerReady, FactsChanged)


class Arrivals:
    """Of one worker. `take` raises `OSError` where the disk is full or the like: then it is given the same again."""

    def __init__(self, root: str, log_file: str, home: Home) -> None:
        self._root = root
        self._log = os.path.join(root, log_file)
        self._folders = {"files": "items", "checkpoint": home.at_driver}
        self._stored = home.storage is not None
        self._parcels = Parcels(lambda label: self._place(label.kind, label.name))
        self._refused: dict[int, str] = {}
        """Why what an item left cannot be kept, by seq."""
        self._again: dict[int, str] = {}
        """Ids of items that were handed out before and have not started here, by seq."""

    def _place(self, kind: str, name: str) -> str:
        return os.path.join(self._root, self._folders[kind], name)

    def take(self, message: Freight) -> str | None:
        """Write down what is in a message. A line for the worker's log, where a checkpoint could not be kept."""
        if isinstance(message, Log):
            self._write(message.start, message.data)
        elif isinstance(message, Stored):
            self._forget(message.checkpoint)
        else:
            return self._take_parcel(message)
        return None

    def _take_parcel(self, message: Parcel) -> str | None:
        label = message.label
        try:
            if self._parcels.take(message) and label.kind == "files":
                self._again.pop(label.seq, None)  # It took the place of what was there.
        except NotTaken as error:
            if label.kind == "files":
                self._refused[label.seq] = f"what it left in SHOAL_ITEM_DIR cannot be kept: {error}"
                return None
            return f"The checkpoint {label.name} cannot be kept by the driver: {error}"
        return None

    def _write(self, start: int, data: bytes) -> None:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            left = memoryview(data)
            while left:
                written = os.pwrite(descriptor, left, start)
                start, left = start + written, left[written:]
        finally:
            os.close(descriptor)

    def _forget(self, name: str) -> None:
        """The storage has this checkpoint now: what it refused before is older."""
        if self._stored:
            shutil.rmtree(self._place("checkpoint", name), ignore_errors=True)
            with suppress(OSError):
                os.rmdir(os.path.join(self._root, self._folders["checkpoint"]))

    def expect_again(self, seq: int, item: str) -> None:
        """An item was handed out that may have left something before."""
        self._again[seq] = item

    def judged(self, event: Event) -> Event:
        """The event, in the light of what came with it: an item whose files could not be kept has failed."""
        if self._again and isinstance(event, ItemStarted) and event.seq in self._again:
            shutil.rmtree(self._place("files", self._again.pop(event.seq)), ignore_errors=True)
        if not self._refused or not isinstance(event, ItemEnded) or event.seq not in self._refused:
            return event
        why = self._refused.pop(event.seq)
        outcome = event.outcome._replace(kept=False)
        if outcome.state == ItemState.DONE:
            outcome = outcome._replace(state=ItemState.FAILED, error=why)
        return event._replace(outcome=outcome)

    def discard(self) -> None:
        """The worker is gone: leave nothing of what is not whole."""
        self._parcels.discard()


class Clock:
    """Puts the times of a worker onto its driver's clock.

    Whatever it sends says when it was sent: the quickest of these tells how far its clock is, to the time that took.
    """

    def __init__(self) -> None:
        self._nearest = self._nearest_before = float("inf")
        """Ours less theirs, in this window and in the one before."""
        self._window_ends = 0.0
        self._latest = 0.0

    def heard(self, sent: float, now: float) -> None:
        """Something came that was sent at that time, by their clock."""
        if now >= self._window_ends:
            is_recent = now < self._window_ends + WINDOW_S
            self._nearest_before = self._nearest if is_recent else float("inf")
            self._nearest, self._window_ends = float("inf"), now + WINDOW_S
        self._nearest = min(self._nearest, now - sent)

    def ours(self, event: Event) -> Event:
        """The event at our time; never before an earlier one."""
        if not isinstance(event, _TIMED):
            return event
        at = event.at + min(self._nearest, self._nearest_before)
        self._latest = at = max(self._latest, at)
        if isinstance(event, _OF_ITEMS):  # As `_replace`, which nearly every event would pay for.
            worker, seq, attempt, _, *rest = event
            return cast(Event, tuple.__new__(type(event), (worker, seq, attempt, at, *rest)))
        return event._replace(at=at)
