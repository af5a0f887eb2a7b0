"""A driver's side of its workers, whatever carries the messages: what is known of each, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.engine.workers import messages
from shoal.engine.workers.status import describe_status
from shoal.model import Event, Item, ItemEnded, ItemStarted, LostCause, Place

CAUSES = {"leaving": LostCause.ROOM, "broken": LostCause.CRASH}
"""Of its end, by what a worker says last."""


class Known:
    """What a driver knows of one worker."""

    __slots__ = ("cause", "ended", "log_file", "number", "place", "running", "said")

    def __init__(self, number: int, place: Place, log_file: str) -> None:
        self.number = number
        self.place = place
        self.log_file = log_file
        self.cause = LostCause.CRASH
        """Why it will turn out to be gone, unless it says otherwise."""
        self.said: tuple[LostCause, str] | None = None
        """The cause and the reason, where it said itself why it goes."""
        self.ended = False
        """Whether it was asked to end."""
        self.running: tuple[int, int] | None = None

    def hear(self, message: messages.Message, now: float) -> Event | None:
        """The event in a message; None when it only says why the worker goes."""
        event = messages.event(message, self.number, self.log_file, now)
        if event is None:
            # One that says it cannot start while it runs an item has died of that item.
            started = LostCause.START if self.running is None else LostCause.CRASH
            self.said = self.said or (CAUSES.get(message[0], started), str(message[1]))
        elif type(event) is ItemStarted:
            self.running = (event.seq, event.attempt)
        elif type(event) is ItemEnded and self.running == (event.seq, event.attempt):
            self.running = None  # One that could not begin ends while another runs.
        return event

    def end(self, status: int | None, why: str | None) -> tuple[LostCause, str]:
        """The cause and the reason of its end, from the exit status of its process."""
        if self.said is not None:
            return self.said
        if self.cause is LostCause.KILLED:
            return self.cause, "killed by its driver"
        if self.cause is LostCause.NODE:
            return self.cause, str(why)
        if self.ended and status == 0 and self.running is None:
            return LostCause.ENDED, "ended"
        return LostCause.CRASH, why or describe_status(status)


class Talking:
    """The part of an engine that tells workers what to do. A mixin: `_send` drops what is for a worker that is gone."""

    def _send(self, number: int, message: list[Any]) -> None:
        raise NotImplementedError

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        self._send(worker, ["chunk", [messages.entry(item) for item in items]])

    def recall(self, worker: int) -> None:
        self._send(worker, ["recall"])

    def cancel(self, worker: int, seq: int, attempt: int, state: str, why: str) -> None:
        self._send(worker, ["cancel", seq, attempt, state, why])
