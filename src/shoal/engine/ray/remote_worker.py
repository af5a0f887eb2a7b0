"""A worker behind an actor, as its driver sees it: what it said, what it is still to be sent, whether it hears."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import ray

from shoal.engine.ray.arrivals import Arrivals, Clock
from shoal.engine.workers.messages import Given, Kill, Passed
from shoal.engine.workers.worker_links import Known
from shoal.model import LostCause, Place

HEAR_S = 5.0
"""How long an actor has to hear that its worker is to be killed."""
GONE_S = 180.0
"""How long it may then say nothing until it is gone: it may be bringing a checkpoint to safety."""


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
