"""A driver's end of a worker's socket: lines of JSON both ways, never blocking."""

from __future__ import annotations

import json
import socket
from typing import Any


class Connection:
    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self.open = True
        self._outgoing = bytearray()
        self._incoming = b""

    @property
    def backlog(self) -> bool:
        """Whether something still has to be sent: call `flush` when the socket can take more."""
        return bool(self._outgoing)

    def send(self, message: list[Any]) -> None:
        self._outgoing += json.dumps(message).encode() + b"\n"
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

    def receive(self) -> list[list[Any]]:
        """Every whole message that has arrived. After the other end is gone, `open` is False."""
        parts = [self._incoming]
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
            parts.append(data)
            if len(data) < 1 << 16:
                break
        whole, newline, self._incoming = b"".join(parts).rpartition(b"\n")
        if not newline:
            return []
        messages: list[list[Any]] = json.loads(b"[" + whole.replace(b"\n", b",") + b"]")
        return messages

    def close(self) -> None:
        self.open = False
        self.socket.close()
