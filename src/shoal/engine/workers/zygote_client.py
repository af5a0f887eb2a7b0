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
from typing import Any, NamedTuple

from shoal.engine.workers import linux

CONTROL_FD = 3
PATIENCE_S = 10.0
"""How long it may take to end, or to read what it is told."""
PING_S = 5.0
"""How often it is asked whether it still hears."""
SILENT_S = 30.0
"""Seconds without an answer after which a zygote is replaced."""
STARTING_S = 120.0
"""How long its first answer may take: it imports Shoal first, perhaps from a slow disk."""
MARK_VARIABLE = "SHOAL_WORKERS"
"""In the environment of a zygote and of all below it."""
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
    """One zygote process. The thread that makes it must live as long as it does (its workers die with the zygote).

    What it started dies with it. Workers have the kernel see to that; what they started in turn has other parents by
    then. So all of it carries a mark in its environment, and is found by that, or by the session, when the zygote is
    gone. The death signal of the kernel would reach a command, but not what the command started; to adopt orphans in
    this process would mix them up with those of the program that uses Shoal.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str | None = None,
    ) -> None:
        interpreter = python or sys.executable
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        self.socket = ours
        self._buffer = b""
        self._mark = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._asked = 0
        self._answered = 0
        self._since = self._looked_at = time.monotonic()
        """Since when it was not asked, or has not answered; and when that was last looked at."""
        # -P: the current folder must not come before the standard library in the workers.
        command = [interpreter, "-P", "-c", PROGRAM, *preload]
        descriptor = os.dup(theirs.fileno()) if theirs.fileno() == CONTROL_FD else theirs.fileno()
        try:
            self.pid = os.posix_spawn(
                interpreter,
                command,
                {**(os.environ if environment is None else environment), MARK_VARIABLE: self._mark},
                file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, CONTROL_FD)],
                setsid=True,
            )
        finally:
            if descriptor != theirs.fileno():
                os.close(descriptor)
            theirs.close()

    def spawn(self, worker: int, target: str, connection: socket.socket) -> None:
        """Have a worker forked that is told through `connection` what to do. `target` is that of its factory."""
        data = encode(Spawn(worker, target.partition(":")[0]))
        sent = socket.send_fds(self.socket, [data], [connection.fileno()])
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def kill(self, worker: int) -> None:
        self._send(KillWorker(worker))

    def _send(self, request: Request) -> None:
        """Raises OSError when it is gone, or has not read for so long that it can take no more."""
        self.socket.sendall(encode(request))

    def is_silent(self, now: float) -> bool:
        """Whether it has not answered for `SILENT_S`, as one that somebody suspended does not. Asks it now and then.

        To be called every second, after `receive`: a gap means that we were suspended, too, and does not count.
        """
        if now - self._looked_at > PING_S:
            self._since = now
        self._looked_at = now
        if self._answered < self._asked:
            return now - self._since > (SILENT_S if self._answered else STARTING_S)
        if now - self._since >= PING_S:
            self._asked += 1
            self._since = now
            with suppress(OSError):
                self._send(Ping(self._asked))
        return False

    def receive(self) -> list[Exited] | None:
        """The ends of workers that it told of since the last call; None when it is gone. Waits for the first byte only.

        Then all that it had started is gone, too, but for what cannot be killed.
        """
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._kill_rest()
            return None
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        ended: list[Exited] = []
        for answer in map(decode, lines):
            if isinstance(answer, Pong):
                self._answered = answer.number
            else:
                _warn(answer.left)
                ended.append(answer)
        return ended

    def _kill_rest(self) -> None:
        _warn(linux.kill_marked(self.pid, f"{MARK_VARIABLE}={self._mark}"))

    def kill_all(self) -> None:
        """SIGKILL for it and for all that it started."""
        os.kill(self.pid, signal.SIGKILL)
        self._kill_rest()

    def close(self) -> None:
        """Returns when every process it started has ended, but for what cannot be killed."""
        if self.pid:
            self.socket.close()
            with suppress(ChildProcessError):
                if not self._reap(PATIENCE_S):  # Somebody suspended it.
                    self.kill_all()
                    self._reap(linux.DYING_S)
            self.pid = 0

    def _reap(self, patience_s: float) -> bool:
        """Wait for its end; whether it came."""
        until = time.monotonic() + patience_s
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True


def _warn(sentences: Sequence[str]) -> None:
    if sentences:
        import logging  # Too slow to import for what hardly ever happens.

        for sentence in sentences:
            logging.getLogger(__name__).warning("%s.", sentence)


class Spawn(NamedTuple):
    """Fork a worker; its end of a socket comes along."""

    worker: int
    module: str
    """Of its factory."""


class KillWorker(NamedTuple):
    worker: int


class Ping(NamedTuple):
    number: int


Request = Spawn | KillWorker | Ping


class Pong(NamedTuple):
    number: int
    """Of the ping that this answers."""


class Exited(NamedTuple):
    """A worker is gone."""

    worker: int
    status: int | None
    """None where it is unknown."""
    why: str | None
    """Where the status does not say it."""
    left: Sequence[str] = ()
    """Sentences about processes of earlier workers that could not be killed."""


Answer = Pong | Exited
_TYPES: dict[str, Any] = {each.__name__: each for each in (Spawn, KillWorker, Ping, Pong, Exited)}


def encode(message: Request | Answer) -> bytes:
    return json.dumps((type(message).__name__, *message)).encode() + b"\n"


def decode(line: bytes) -> Any:
    """A message of the type that was encoded: both ends are Shoal's own."""
    name, *fields = json.loads(line)
    return _TYPES[name]._make(fields)
