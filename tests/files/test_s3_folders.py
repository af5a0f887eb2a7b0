"""What an S3 server lists for folders that somebody made: names with a slash at the end, which are no files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

from shoal.files import open_storage
from shoal.files.s3 import _Reached

pytestmark = pytest.mark.s3

PAGE = 2


@contextmanager
def serving(sizes: dict[str, int], *, status: int = 404) -> Iterator[tuple[str, list[str]]]:
    """A server with one bucket of objects of these sizes, in pages of two, and the names it was asked for one by one.

    SeaweedFS has real folders, so it lists none. `status` is the answer for an object that is not there.
    """
    asked: list[str] = []
    names = sorted(sizes, key=str.encode)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urlsplit(self.path).query
            after = next((unquote(each[19:]) for each in query.split("&") if each.startswith("cont")), "0")
            page = names[int(after) : int(after) + PAGE]
            rest = int(after) + PAGE
            more = f"<NextContinuationToken>{rest}</NextContinuationToken>" if rest < len(names) else ""
            self._answer(200, listed(page, sizes, more).encode())

        def do_HEAD(self) -> None:
            name = unquote(urlsplit(self.path).path).removeprefix("/bucket/")
            asked.append(name)
            self._answer(200 if name in sizes else status, b"")

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            for header, value in (
                ("Content-Length", str(len(body))),
                ("ETag", '"x"'),
                ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ):
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def listed(names: Sequence[str], sizes: dict[str, int], more: str) -> str:
    objects = "".join(
        f"<Contents><Key>{name}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;x&quot;</ETag><Size>{sizes[name]}</Size></Contents>"
        for name in names
    )
    return f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{objects}</ListBucketResult>"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    return lambda endpoint: [entry.key for entry in open_storage("s3://bucket/in", endpoint=endpoint).list()]


def test_a_folder_that_somebody_made_is_no_file(keys: Callable[[str], list[str]]) -> None:
    sizes = {"in/": 0, "in/a": 3, "in/b/": 0, "in/b/c": 3, "in/b/d/": 0, "in/e": 0, "in/f": 0, "in/z/": 0}
    with serving(sizes) as (endpoint, asked):
        assert keys(endpoint) == ["a", "b/c", "e", "f"]
        assert asked == ["in/b/d", "in/e", "in/f", "in/z"]


def test_who_may_only_list_sees_what_has_no_bytes_as_files(keys: Callable[[str], list[str]]) -> None:
    with serving({"in/a": 3, "in/b/": 0}, status=403) as (endpoint, _asked):
        assert keys(endpoint) == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "can"),
    [
        (["a b", "a.jpg", "a/b", "a0", "ä"], True),
        (["a/b", "a/c/d", "a/c.jpg", "a b", "a.jpg"], True),
        (["a/b", "a.jpg", "a0", "a/c"], False),
        (["b", "a"], False),
    ],
)
def test_a_listing_in_no_order_cannot_be_gone_on_with(names: list[str], can: bool) -> None:
    reached = _Reached()
    reached.new_in([{"path": name, "size": 1} for name in names])
    assert reached.can_go_on is can
