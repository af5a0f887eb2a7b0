"""JupyterLab on a head: who can reach it, and with what. A small server stands in for JupyterLab."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from shoal.cluster.agent import notebook, processes
from shoal.cluster.agent.requests import TOKEN_FILE
from shoal.errors import ClusterError
from shoal.files import write_secret

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # It outlives the agent that started it, and here the agent is pytest.
JUPYTER = """\
import http.server, json, os, sys
token = os.environ["JUPYTER_TOKEN"]
kept = {name: value for name, value in os.environ.items() if name.startswith(("RAY_", "SHOAL_"))}
with open("started", "a") as file:
    print(json.dumps([sys.argv[1:], kept, token]), file=file)
given = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.headers["Authorization"] == f"token {token}" else 403)
        self.end_headers()
http.server.HTTPServer((given["--ip"], int(given["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a node with a token, on a machine with a JupyterLab."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "jupyterlab.py").write_text(JUPYTER)
    node = tmp_path / "node"
    node.mkdir()
    write_secret(str(node / TOKEN_FILE), "token-of-ray")
    yield node
    processes.end(str(node))


def started(folder: Path) -> list[list[object]]:
    """Arguments, variables and token of each that was started."""
    return [json.loads(line) for line in (folder.parent / "started").read_text().splitlines()]


def test_it_listens_on_loopback_wants_a_token_and_is_started_once(folder: Path) -> None:
    found = notebook.start(str(folder))
    assert notebook.start(str(folder)) == found
    [(arguments, variables, token)] = started(folder)
    assert "--ip=127.0.0.1" in arguments
    assert f"--port={found.port}" in arguments
    assert "--ServerApp.port_retries=0" in arguments, "another port would be another user's to listen at"
    assert (token, found.token) == (found.token, token)
    assert len(found.token) >= 32
    assert found.token not in " ".join(map(str, arguments))
    assert variables["RAY_AUTH_TOKEN_PATH"] == str(folder / TOKEN_FILE)
    assert stat.S_IMODE((folder / notebook.FILE).stat().st_mode) == 0o600


class Listener(HTTPServer):
    """Somebody who says yes to everything, and remembers what came."""

    def __init__(self, port: int, user: int) -> None:
        super().__init__(("127.0.0.1", port), Answer, bind_and_activate=False)
        self.heard: list[str] = []
        self.socket.close()
        os.seteuid(user)
        try:
            self.socket = socket.socket()
        finally:
            os.seteuid(0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server_bind()
        self.server_activate()


class Answer(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.heard.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.root
def test_who_listens_where_it_was_does_not_get_the_token(folder: Path) -> None:
    first = notebook.start(str(folder))
    for process in processes.of(str(folder)):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    listener = Listener(first.port, user=65534)
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        second = notebook.start(str(folder))
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
    assert listener.heard == []
    assert second.port != first.port
    assert len(started(folder)) == 2


def test_one_that_ends_at_once_is_an_error_with_its_last_words(folder: Path) -> None:
    (folder.parent / "jupyterlab.py").write_text("raise SystemExit('no such kernel')")
    with pytest.raises(ClusterError, match="JupyterLab did not start: no such kernel"):
        notebook.start(str(folder))
