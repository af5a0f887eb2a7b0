"""The driver's end of the zygote: starts one, asks it for workers, hears of their ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

CONTROL_FD = 3
PATIENCE_S = 10.0
PROGRAM = "from shoal.engine.workers.zygote import main; main()"

_idle: ZygoteClient | None = None


def prestart(*preload: str) -> None:
    """Start the zygote that the next engine will use, so that it comes up while the caller is still thinking.

    `preload` names modules of Shoal's that its workers will need.
    """
    global _idle
    if _idle is None:
        _idle = ZygoteClient(preload)


def take(python: str | None = None) -> ZygoteClient:
    """The prestarted zygote, or a new one; one of another interpreter than ours is always new."""
    global _idle
    if python is not None and python != sys.executable:
        discard()
        return ZygoteClient(python=python)
    ready, _idle = _idle, None
    return ready if ready is not None else ZygoteClient()


def discard() -> None:
    """End a prestarted zygote that nobody took."""
    global _idle
    if _idle is not None:
        _idle.close()
        _idle = None


class ZygoteClient:
    """One zygote process. The thread that makes it must live as long as it does (its workers die with the zygote)."""

    def __init__(
        self,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str | None = None,
    ) -> None:
        interpreter = python or sys.executable
        ours, theirs = socket.socketpair()
        self.socket = ours
        self._buffer = b""
        # -P: the current folder must not come before the standard library in the workers.
        command = [interpreter, "-P", "-c", PROGRAM, *preload]
        descriptor = os.dup(theirs.fileno()) if theirs.fileno() == CONTROL_FD else theirs.fileno()
        try:
            self.pid = os.posix_spawn(
                interpreter,
                command,
                os.environ if environment is None else environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, CONTROL_FD)],
                setsid=True,
            )
        finally:
            if descriptor != theirs.fileno():
                os.close(descriptor)
            theirs.close()

    def spawn(self, request: Mapping[str, Any], connection: socket.socket) -> None:
        data = json.dumps({"op": "spawn", **request}).encode() + b"\n"
        sent = socket.send_fds(self.socket, [data], [connection.fileno()])
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def kill(self, worker: int) -> None:
        self.socket.sendall(json.dumps({"op": "kill", "worker": worker}).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """What it told since the last call, without waiting more than for the first byte; None when it is gone."""
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Returns when every process it started has ended."""
        if self.pid:
            self.socket.close()
            with suppress(ChildProcessError):
                self._reap()
            self.pid = 0

    def _reap(self) -> None:
        """Wait for its end; one that does not end (somebody suspended it) is killed, and its workers with it."""
        until = time.monotonic() + PATIENCE_S
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.001)
