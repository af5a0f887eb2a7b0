"""A driver's end of a worker's socket: lines of JSON both ways, never blocking."""

from __future__ import annotations

import socket

from shoal.engine.workers import messages


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
