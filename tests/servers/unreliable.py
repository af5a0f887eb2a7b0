"""A proxy in front of an HTTP server that answers some requests badly: 503, a reset connection, or nothing at all."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

WAYS = ("503", "429", "reset", "stall", "cut", "short", "late")
"""`cut`: half of the answer, then a reset; `short`: then a proper end. `late`: it is done, but the answer is lost."""
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade"}


class Fault(NamedTuple):
    """Which way a request failed, and what it was."""

    way: str
    method: str
    path: str


class Unreliable:
    """The proxy, at `url`: every `every`-th request fails in one of `ways`, in turn; `faults` has them all."""

    def __init__(self, target: str, every: int, ways: tuple[str, ...]) -> None:
        self.every, self.ways = every, ways
        self.faults: list[Fault] = []
        self.requests = 0
        self.before: Callable[[BaseHTTPRequestHandler], None] = lambda request: None
        """Called with each request that goes on to the server, before it does."""
        self.ending = threading.Event()
        self._lock = threading.Lock()
        self._target = urlsplit(target)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_way(self, method: str, path: str) -> str | None:
        """How the next request is to fail; None for not at all."""
        with self._lock:
            self.requests += 1
            if not self.every or self.requests % self.every:
                return None
            way = self.ways[len(self.faults) % len(self.ways)]
            self.faults.append(Fault(way, method, path))
            return way

    def forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        host, port = self._target.hostname or "", self._target.port
        connection = HTTPConnection(host, port, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            headers = [each for each in answer.getheaders() if each[0].lower() not in _HOP_BY_HOP]
            return answer.status, headers, answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(OSError):
                    super().handle_one_request()
                    return
                self.close_connection = True

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                way = proxy.next_way(self.command, self.path)
                if way == "stall":
                    proxy.ending.wait(60)
                if way in ("reset", "stall"):
                    self.reset()
                elif way in ("503", "429"):
                    self.answer(int(way), [("Content-Length", "0")], b"")
                else:
                    proxy.before(self)
                    status, headers, content = proxy.forward(self, body)
                    if way == "late":
                        self.reset()
                        return
                    self.answer(
                        status, headers, content[: len(content) // 2] if way in ("cut", "short") else content
                    )
                    if way == "cut":
                        self.reset()
                    self.close_connection |= way == "short"

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any  # noqa: N815 - names of the library

            def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                if not any(name.lower() == "content-length" for name, _ in headers):  # It was sent in chunks.
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def reset(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def unreliable() -> Iterator[Callable[..., Unreliable]]:
    """Makes proxies: `unreliable(url, every=10, ways=WAYS)`. They end with the test."""
    made: list[Unreliable] = []

    def make(target: str, every: int = 10, ways: tuple[str, ...] = WAYS) -> Unreliable:
        made.append(Unreliable(target, every, ways))
        return made[-1]

    yield make
    for each in made:
        each.close()
