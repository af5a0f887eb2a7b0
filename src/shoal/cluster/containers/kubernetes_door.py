"""A door to a pod: commands through exec streams, and ports of this machine's loopback that lead to its ports."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from shoal.cluster.base import Done
from shoal.cluster.containers.kuberay import DASHBOARD_PORT
from shoal.cluster.containers.kubernetes_client import Api, speaking
from shoal.cluster.containers.tunnels import listen
from shoal.errors import ClusterError

CONTAINER = "ray-head"
WITH_INPUT = 'n="$1"; shift; head -c "$n" | "$@"'
"""A stream cannot be closed in one direction, so the command behind this is given just as many bytes as there are."""
PIECE = 1 << 16
TURN_S = 1.0
LAST_BYTES_S = 2.0
"""How long an answer may still come after a client has said all it will."""

__all__ = ["DASHBOARD_PORT", "KubernetesDoor"]


class KubernetesDoor:
    """Implements `Door` for one pod."""

    def __init__(self, api: Api, pod: str, container: str = CONTAINER) -> None:
        self._api = api
        self._pod = pod
        self._container = container

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        output, errors = bytearray(), bytearray()
        code = self._follow(arguments, output.extend, errors.extend, stdin, timeout_s)
        return Done(code, bytes(output), bytes(errors))

    def attach(self, arguments: Sequence[str]) -> int:
        return self._follow(arguments, _writer(sys.stdout.buffer), _writer(sys.stderr.buffer))

    def _follow(
        self,
        arguments: Sequence[str],
        output: Callable[[bytes], Any],
        errors: Callable[[bytes], Any],
        stdin: bytes = b"",
        timeout_s: float | None = None,
    ) -> int:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        stream = self._open(arguments, stdin)
        try:
            for start in range(0, len(stdin), PIECE):
                stream.write_stdin(stdin[start : start + PIECE])
            while stream.is_open():
                stream.update(timeout=TURN_S)
                _pass_on(stream, output, errors)
                if deadline is not None and time.monotonic() > deadline:
                    raise ClusterError(f"{arguments[0]} on {self._pod} took longer than {timeout_s:g} s.")
            _pass_on(stream, output, errors)
            code = stream.returncode
        finally:
            stream.close()
            stream.sock.shutdown()  # Which the client leaves open where the other side was the first to close.
        if code is None:
            raise ClusterError(f"The connection to {self._pod} broke.", hint="Look with kubectl get pods.")
        return int(code)

    def _open(self, arguments: Sequence[str], stdin: bytes) -> Any:
        from kubernetes.stream import stream

        command = ["sh", "-c", WITH_INPUT, "sh", str(len(stdin)), *arguments] if stdin else list(arguments)
        core = self._api.core()
        with speaking(f"run a command in {self._pod}"):
            return stream(
                core.connect_get_namespaced_pod_exec,
                self._pod,
                self._api.namespace,
                command=command,
                container=self._container,
                stdin=bool(stdin),
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        return listen(lambda connection: self._lead(connection, port))

    def _lead(self, connection: socket.socket, port: int) -> None:
        from kubernetes.stream import portforward

        core = self._api.core()
        try:
            tunnel = portforward(
                core.connect_get_namespaced_pod_portforward, self._pod, self._api.namespace, ports=str(port)
            )
        except Exception:  # noqa: BLE001 - whatever it is, the client sees a connection that ends
            connection.close()
            return
        inner = tunnel.socket(port)
        back = threading.Thread(target=_back, args=(inner, connection), name="shoal-forward", daemon=True)
        back.start()
        _pump(connection, inner)
        back.join(LAST_BYTES_S)
        tunnel.close()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        back.join()
        connection.close()
        _end(tunnel)


def _pump(source: Any, target: Any) -> None:
    """Bytes from one to the other, until there are no more. The tunnel knows no end of one direction alone."""
    with suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data)


def _end(tunnel: Any) -> None:
    """The client's tunnel ends by a thread of its own, and leaves its socket open where the pod closed first."""
    deadline = time.monotonic() + TURN_S
    while tunnel.websocket.connected and time.monotonic() < deadline:
        time.sleep(0.01)
    tunnel.websocket.shutdown()


def _back(inner: Any, connection: socket.socket) -> None:
    """What the pod sends, and then the end: a client may wait for it before it closes its side."""
    _pump(inner, connection)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _pass_on(stream: Any, output: Callable[[bytes], Any], errors: Callable[[bytes], Any]) -> None:
    for peek, read, sink in (
        (stream.peek_stdout, stream.read_stdout, output),
        (stream.peek_stderr, stream.read_stderr, errors),
    ):
        if peek():
            sink(read(timeout=0))


def _writer(file: BinaryIO) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        file.write(data)
        file.flush()

    return write
