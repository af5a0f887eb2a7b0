"""Files behind a web server: with ranges and without, and behind one that fails."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from servers.unreliable import Unreliable
from shoal.errors import AccessDenied, FileError, NotFound, SpecError, Unreachable
from shoal.files import Patience, find, open_storage

CONTENT = os.urandom(1024) * 20_001
FILES = {
    "/data/large": CONTENT,
    "/data/with%20space": b"space",
    "/data/empty": b"",
    "/data/q?key=1": b"asked",
}


class Web(ThreadingHTTPServer):
    """Serves `FILES`; `knows_ranges` as it says."""

    daemon_threads = True
    knows_ranges = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Web)
        content = FILES.get(self.path)
        if self.path == "/data/away":
            self.answer(302, b"", {"Location": "/data/with%20space"})
        elif self.path == "/data/disk":
            self.answer(302, b"", {"Location": "file:///etc/hostname"})
        elif self.path == "/data/secret":
            self.answer(403, b"")
        elif self.path == "/data/nonsense":
            self.send_response(200)
            self.send_header("Content-Length", "many")
            self.end_headers()
            self.close_connection = True
        elif self.path == "/data/endless":
            self.trickle()
        elif content is None:
            self.answer(404, b"")
        else:
            self.part(content, re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""))

    do_HEAD = do_GET  # noqa: N815 - a name of the library

    def part(self, content: bytes, asked: re.Match[str] | None) -> None:
        assert isinstance(self.server, Web)
        if asked is None or not self.server.knows_ranges:
            self.answer(200, content, {"ETag": '"one"'})
            return
        start, end = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
        if start >= len(content):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        else:
            self.answer(206, content[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})

    def trickle(self) -> None:
        """A byte now and then, which is often enough to count as an answer."""
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 30))
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"x")
                time.sleep(0.02)

    def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def web(request: pytest.FixtureRequest) -> Iterator[Web]:
    server = Web(("127.0.0.1", 0), Handler)
    server.knows_ranges = request.param
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_is_read_whole_in_part_and_in_pieces(web: Web, tmp_path: Path) -> None:
    storage = open_storage(f"{web.url}/data")
    assert storage.read("large") == CONTENT
    assert storage.read("large", start=5, length=10) == CONTENT[5:15]
    assert storage.read("large", start=len(CONTENT) - 3) == CONTENT[-3:]
    assert storage.read("large", start=len(CONTENT) + 3) == b""
    assert storage.stat("large").size_bytes == len(CONTENT)
    with storage.open("large") as file:
        file.seek(-7, os.SEEK_END)
        assert file.read() == CONTENT[-7:]
    storage.download("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT


def test_names_are_quoted_queries_sent_and_redirects_followed(web: Web) -> None:
    storage = open_storage(f"{web.url}/data")
    assert storage.read("with space") == b"space"
    assert storage.read("away") == b"space"
    assert storage.read("empty") == b""
    with storage.open("empty") as file:
        assert file.read() == b""
    storage, (entry,) = find(f"{web.url}/data/with%20space")
    assert (entry.key, storage.read(entry.key)) == ("with space", b"space")
    storage, (entry,) = find(f"{web.url}/data/q?key=1")
    assert storage.read(entry.key) == b"asked"


def test_what_cannot_be_had_is_told_apart(web: Web, quick: Patience, tmp_path: Path) -> None:
    storage = open_storage(f"{web.url}/data", patience=quick)
    with pytest.raises(NotFound, match="/data/nothing"):
        storage.read("nothing")
    with pytest.raises(NotFound, match="/data/nothing"):
        find(f"{web.url}/data/nothing")
    with pytest.raises(AccessDenied, match="403"):
        storage.download("secret", tmp_path / "copy")
    with pytest.raises(FileError, match="not allowed"):
        storage.read("disk")  # A redirect to a file of this machine is not followed.
    with pytest.raises(SpecError, match="cannot be listed"):
        storage.list()
    with pytest.raises(SpecError, match="cannot be written"):
        storage.write("x", b"")
    assert not storage.exists("nothing")
    assert os.listdir(tmp_path) == []


def test_a_server_that_fails_now_and_then_costs_tries_and_nothing_else(
    web: Web, unreliable: Callable[..., Unreliable], quick: Patience, tmp_path: Path
) -> None:
    proxy = unreliable(web.url, every=3)
    storage = open_storage(f"{proxy.url}/data", patience=quick)
    for _ in range(8):
        assert storage.read("large") == CONTENT
        assert storage.read("large", start=100, length=100) == CONTENT[100:200]
        storage.download("large", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == CONTENT
    assert {fault.way for fault in proxy.faults} == {"503", "429", "reset", "stall", "cut", "short", "late"}


def test_an_answer_that_ends_early_is_not_taken_for_the_whole(
    web: Web, unreliable: Callable[..., Unreliable], quick: Patience, tmp_path: Path
) -> None:
    proxy = unreliable(web.url, every=2, ways=("short",))
    storage = open_storage(f"{proxy.url}/data", patience=quick)
    assert storage.exists("large")
    storage.download("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT
    assert proxy.faults


def test_a_server_that_always_fails_is_given_up_after_so_many_tries(
    web: Web, unreliable: Callable[..., Unreliable], quick: Patience
) -> None:
    proxy = unreliable(web.url, every=1, ways=("503",))
    with pytest.raises(Unreachable, match=r"503.* Tried 3 times\."):
        open_storage(f"{proxy.url}/data", patience=quick._replace(tries=3)).read("large")
    assert proxy.requests == 3


def test_nobody_there_is_said_with_the_address(quick: Patience) -> None:
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1/x .*refused.* Tried 2 times\."):
        open_storage("http://127.0.0.1:1", patience=quick._replace(tries=2)).read("x")


def test_a_size_that_is_no_number_is_said(web: Web, quick: Patience) -> None:
    storage = open_storage(f"{web.url}/data", patience=quick)
    for look in (storage.stat, storage.read, storage.open):
        with pytest.raises(
            FileError, match="nonsense cannot be read: the server says that it has 'many' bytes"
        ):
            look("nonsense")


def test_an_answer_that_trickles_for_ever_is_given_up(
    web: Web, quick: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.files.http.WHOLE_S", 0.2)
    storage = open_storage(f"{web.url}/data", patience=quick._replace(tries=1))
    for look in (storage.read, storage.open):
        with pytest.raises(
            Unreachable, match=r"endless cannot be read: \d+ bytes came within 0\.2 s, and no end"
        ):
            look("endless")
