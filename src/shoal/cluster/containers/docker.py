"""Docker through its command line: arguments in, text out, what refusals mean; and a door to a container."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from shoal.cluster.base import Done
from shoal.cluster.containers.tunnels import listen
from shoal.errors import ClusterError

TIMEOUT_S = 120.0
PIECE = 1 << 16
RELAY = """\
import os, socket, sys, threading
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def up():
    while d := os.read(0, 65536):
        s.sendall(d)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while d := s.recv(65536):
    while d:
        d = d[os.write(1, d):]
"""
"""Runs in the container: what comes in goes to the port, and back."""


class Docker:
    """One docker, by the name of its context; None is the current one."""

    def __init__(self, context: str | None = None, program: Sequence[str] = ("docker",)) -> None:
        self.command = [*program, *(["--context", context] if context else [])]

    def call(self, *arguments: str, stdin: bytes = b"", timeout_s: float | None = TIMEOUT_S) -> Done:
        """Run it to its end, whatever the end is."""
        try:
            done = subprocess.run(
                [*self.command, *arguments], input=stdin, capture_output=True, timeout=timeout_s, check=False
            )
        except FileNotFoundError:
            raise ClusterError(
                "docker is not installed here.", hint="Install Docker's command line."
            ) from None
        except subprocess.TimeoutExpired:
            raise ClusterError(f"docker {arguments[0]} did not answer within {timeout_s:g} s.") from None
        return Done(done.returncode, done.stdout, done.stderr)

    def do(self, what: str, *arguments: str, stdin: bytes = b"") -> str:
        """What it printed; raises `ClusterError` when it failed. `what` says what it was to do."""
        done = self.call(*arguments, stdin=stdin)
        if done.code != 0:
            raise _refusal(what, done.errors.decode(errors="replace").strip())
        return done.output.decode(errors="replace").strip()

    def objects(self, what: str, *arguments: str) -> list[dict[str, Any]]:
        """What `docker ... inspect` printed, as values; what went since it was listed is left out."""
        done = self.call(*arguments)
        said = done.errors.decode(errors="replace").strip()
        if done.code != 0 and "not found" not in said and "no such" not in said.lower():
            raise _refusal(what, said)
        found: list[dict[str, Any]] = json.loads(done.output or b"[]")
        return found


def _refusal(what: str, said: str) -> ClusterError:
    lowered = said.lower()
    if "cannot connect to the docker daemon" in lowered or "permission denied" in lowered:
        return ClusterError(
            f"docker cannot {what}: {said.rstrip('.')}.",
            hint="Is its engine running, and may you use it? `docker info` must work; context: names another one.",
        )
    if "not a swarm manager" in lowered:
        return ClusterError(
            "This Docker engine is not a manager of a swarm.",
            hint="Make one with docker swarm init and docker swarm join, or name a manager's context:.",
        )
    return ClusterError(f"docker cannot {what}: {said.rstrip('.') or 'it gives no reason'}.")


class SwarmDoor:
    """Implements `Door` for one container."""

    def __init__(self, docker: Docker, container: str) -> None:
        self._docker = docker
        self._container = container

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        return self._docker.call("exec", "-i", self._container, *arguments, stdin=stdin, timeout_s=timeout_s)

    def attach(self, arguments: Sequence[str]) -> int:
        return subprocess.run(
            [*self._docker.command, "exec", self._container, *arguments], check=False
        ).returncode

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        return listen(lambda connection: self._lead(connection, port))

    def _lead(self, connection: socket.socket, port: int) -> None:
        command = [*self._docker.command, "exec", "-i", self._container, "python", "-c", RELAY, str(port)]
        with (
            connection,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as relay,
        ):
            assert relay.stdin is not None
            assert relay.stdout is not None
            there = threading.Thread(target=_send, args=(connection, relay.stdin), daemon=True)
            there.start()
            with suppress(OSError):
                while data := relay.stdout.read1(PIECE):  # type: ignore[attr-defined]
                    connection.sendall(data)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            there.join()


def _send(connection: socket.socket, pipe: IO[bytes]) -> None:
    with suppress(OSError):
        while data := connection.recv(PIECE):
            pipe.write(data)
            pipe.flush()
    with suppress(OSError):
        pipe.close()
