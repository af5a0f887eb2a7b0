"""A door to a container on this Docker engine: commands through `docker exec`, ports through a relay inside it."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from shoal.cluster.base import Done
from shoal.cluster.containers.docker import Docker
from shoal.cluster.containers.tunnels import listen

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
