"""How web servers are asked: two requests at a time, no sooner than they say, by somebody with a name."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shoal.errors import Unreachable
from shoal.files import Patience, open_storage
from shoal.files.web_manners import asked_wait_s


class Busy(ThreadingHTTPServer):
    """Holds each answer for a moment, and notes what came."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.agents: list[str | None] = []
        self.came_s: list[float] = []
        self.refusals: list[str] = []
        """`Retry-After` of the first answers."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Busy)
        with server.lock:
            server.now += 1
            server.most = max(server.most, server.now)
            server.agents.append(self.headers.get("User-Agent"))
            server.came_s.append(time.monotonic())
            wait = server.refusals.pop(0) if server.refusals else None
        time.sleep(0.03)
        with server.lock:
            server.now -= 1
        self.send_response(200 if wait is None else 503)
        if wait is not None:
            self.send_header("Retry-After", wait)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def busy() -> Iterator[Busy]:
    server = Busy()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_machine_has_two_requests_at_a_server_at_a_time(busy: Busy) -> None:
    storage = open_storage(f"http://127.0.0.1:{busy.server_port}/data")
    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(storage.read, [f"f{n}" for n in range(12)])] == [b"ok"] * 12
    assert busy.most == 2


def test_nobody_asks_again_sooner_than_the_server_says(busy: Busy) -> None:
    busy.refusals = ["1"]
    assert open_storage(f"http://127.0.0.1:{busy.server_port}/data").read("f") == b"ok"
    assert busy.came_s[1] - busy.came_s[0] >= 1


def test_a_server_that_wants_more_patience_than_there_is_is_not_asked_again(busy: Busy) -> None:
    busy.refusals = ["86400"]
    storage = open_storage(f"http://127.0.0.1:{busy.server_port}/data", patience=Patience(retry_for_s=5))
    with pytest.raises(Unreachable, match="to wait for 86400 s"):
        storage.read("f")
    assert len(busy.came_s) == 1


def test_a_server_is_told_who_asks(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(f"http://127.0.0.1:{busy.server_port}/data")
    monkeypatch.setenv("SHOAL_CONTACT", "me@lab.gr")
    storage.read("f")
    monkeypatch.setenv("SHOAL_CONTACT", "x\r\nCookie: y")
    storage.read("f")
    first, second = busy.agents
    assert second is not None
    assert second.startswith("shoal")
    assert first == f"{second} (+me@lab.gr)"


def test_without_a_place_for_locks_files_are_read_all_the_same(
    busy: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert open_storage(f"http://127.0.0.1:{busy.server_port}/data").read("f") == b"ok"


def test_a_wait_is_seconds_or_a_date() -> None:
    def asked(text: str) -> float:
        headers = Message()
        headers["Retry-After"] = text
        return asked_wait_s(headers, 1000.0)

    assert [asked(text) for text in ("7", "", "soon", formatdate(1030.0), formatdate(10.0))] == [
        7,
        0,
        0,
        30,
        0,
    ]
