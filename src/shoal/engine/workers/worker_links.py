"""A driver's side of its workers: what is known of each, whatever carries the messages; and their sockets."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from shoal.engine.workers import messages
from shoal.engine.workers.linux import describe_status
from shoal.model import (
    Event,
    FactsChanged,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    LogSlice,
    LostCause,
    Outcome,
    Place,
    WorkerReady,
)

CAUSES: Mapping[type, LostCause] = {messages.Leaving: LostCause.ROOM, messages.Broken: LostCause.CRASH}
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

    def hear(self, message: messages.Said, now: float) -> Event | None:
        """The event in a message; None when it only says why the worker goes."""
        event = _event(message, self.number, self.log_file, now)
        if event is None:
            assert isinstance(message, messages.Farewell)
            # One that says it cannot start while it runs an item has died of that item.
            started = LostCause.START if self.running is None else LostCause.CRASH
            self.said = self.said or (CAUSES.get(type(message), started), message.why)
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


def _event(message: messages.Said, worker: int, log_file: str, now: float) -> Event | None:
    """What the driver hears. None for what only says why the worker goes."""
    if type(message) is messages.Ended:
        seq, attempt, at, state, metrics, error, seconds, log_start, log_end, kept = message
        outcome = Outcome(state, metrics, error, seconds, LogSlice(log_file, log_start, log_end), kept)
        return ItemEnded(worker, seq, attempt, at, outcome)
    if type(message) is messages.Started:
        seq, attempt, at, log_start = message
        return ItemStarted(worker, seq, attempt, at, LogSlice(log_file, log_start))
    if type(message) is messages.Progressed:
        seq, attempt, at, metrics, step = message
        return ItemProgressed(worker, seq, attempt, at, metrics, step)
    if type(message) is messages.Returned:
        return ItemsReturned(worker, tuple((seq, attempt) for seq, attempt in message.items), now)
    if type(message) is messages.Ready:
        return WorkerReady(worker, message.at, message.startup_s, message.facts)
    if type(message) is messages.Facts:
        return FactsChanged(worker, message.at, message.facts)
    return None


class Talking:
    """The part of an engine that tells workers what to do. A mixin: `_send` drops what is for a worker that is gone."""

    def _send(self, number: int, message: messages.Order) -> None:
        raise NotImplementedError

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        self._send(worker, messages.Chunk([messages.entry(item) for item in items]))

    def recall(self, worker: int) -> None:
        self._send(worker, messages.Recall())

    def cancel(self, worker: int, seq: int, attempt: int, state: str, why: str) -> None:
        self._send(worker, messages.Cancel(seq, attempt, state, why))


class Connection:
    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self.open = True
        self._outgoing = bytearray()
        self._incoming = bytearray()

    @property
    def backlog(self) -> bool:
        """Whether something still has to be sent: call `flush` when the socket can take more."""
        return bool(self._outgoing)

    def send(self, line: bytes) -> None:
        self._outgoing += line
        self.flush()

    def flush(self) -> None:
        while self._outgoing and self.open:
            try:
                sent = self.socket.send(self._outgoing)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The reading side will tell how the worker ended.
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    def receive(self) -> list[messages.Said]:
        """Every whole message that has arrived; never raises. After the other end is gone, `open` is False.

        So it is after something arrived that is no message: `broken` is then the last that is heard, and the process at
        the other end is of no use any more.
        """
        found = -1
        while self.open:
            try:
                data = self.socket.recv(1 << 18)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            if not data:
                self.open = False
                break
            last = data.rfind(b"\n")
            found = len(self._incoming) + last if last >= 0 else found
            self._incoming += data
            if len(data) < 1 << 16 or len(self._incoming) > 2 * messages.MESSAGE_BYTES:
                break
        told, why = self._decode(found)
        if why is None and len(self._incoming) > messages.MESSAGE_BYTES:
            why = f"it has more than {messages.MESSAGE_BYTES >> 20} MiB"
        if why is not None:
            self.open = False
            told.append(messages.Broken(f"what its process said was refused: {why}"))
        return told

    def _decode(self, end: int) -> tuple[list[messages.Said], str | None]:
        """Of what has come in, the lines before the line feed at `end`; there is none where that is -1."""
        if end < 0:
            return [], None
        lines = bytes(self._incoming[:end])
        del self._incoming[: end + 1]
        return messages.decode(lines)

    def close(self) -> None:
        self.open = False
        self.socket.close()
