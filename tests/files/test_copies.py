"""Files copied between storages: whole, once, and again only where they changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from servers.hdfs import HdfsFolder
from servers.seaweedfs import Bucket
from shoal.errors import NotFound, SpecError, Unreachable
from shoal.files import Patience, Storage, open_storage
from shoal.files.base import PIECE_BYTES
from shoal.files.copies import Copied, Copy, Copying, planned

LONG_AGO_S = 1_000_000_000
LARGE = bytes(range(256)) * (PIECE_BYTES // 256) + b"and more than a piece"


def copied(sources: list[str], to: str) -> Copied:
    return Copying(*planned(sources, to)).run(lambda so_far: None, 1.0)


def counts(result: Copied) -> tuple[int, int, int]:
    return result.copied, result.skipped, len(result.failed)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a")
    (folder / "empty").write_bytes(b"")
    (folder / "deep" / "er" / "b c.bin").write_bytes(LARGE)
    for path in (each for each in folder.rglob("*") if each.is_file()):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


def test_a_folder_goes_there_and_back_and_is_copied_once(
    storage: Storage, tree: Path, tmp_path: Path
) -> None:
    there = copied([str(tree)], storage.url)
    assert counts(there) == (3, 0, 0)
    assert there.moved_bytes == there.bytes == len(LARGE) + 1
    assert counts(copied([str(tree)], storage.url)) == (0, 3, 0)
    assert counts(copied([storage.url], str(tmp_path / "back"))) == (3, 0, 0)
    assert files_in(tmp_path / "back") == files_in(tree)
    (tree / "a.txt").write_bytes(b"b")
    os.utime(tree / "a.txt", (2 * LONG_AGO_S, 2 * LONG_AGO_S))
    assert counts(copied([str(tree)], storage.url)) == (1, 2, 0)
    assert storage.read("a.txt") == b"b"


@pytest.mark.s3
@pytest.mark.hdfs
def test_files_go_from_a_bucket_to_an_hdfs(bucket: Bucket, hdfs_folder: HdfsFolder, tree: Path) -> None:
    copied([str(tree)], f"{bucket.url}/tree")
    assert counts(copied([f"{bucket.url}/tree/**/*"], hdfs_folder.url)) == (3, 0, 0)
    assert open_storage(hdfs_folder.url).read("deep/er/b c.bin") == LARGE


@pytest.mark.parametrize(
    ("sources", "to", "written"),
    [
        (["a.txt"], "b.txt", {"b.txt"}),
        (["a.txt"], "new/b.txt", {"new/b.txt"}),
        (["a.txt"], "new/", {"new/a.txt"}),
        (["a.txt"], "there", {"there/a.txt"}),
        (["a.txt", "deep"], "new", {"new/a.txt", "new/er/b c.bin"}),
        (["deep"], "new", {"new/er/b c.bin"}),
        (["deep/er/*.bin"], "new", {"new/b c.bin"}),
    ],
    ids=str,
)
def test_where_files_go(
    tree: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], to: str, written: set[str]
) -> None:
    monkeypatch.chdir(tree)
    (tree / "there").mkdir()
    before = set(files_in(tree))
    copied(sources, to)
    assert set(files_in(tree)) - before == written


class Served(SimpleHTTPRequestHandler):
    """The files of a folder, with an etag where there is one."""

    etag: ClassVar[str | None] = None

    def end_headers(self) -> None:
        if self.etag is not None:
            self.send_header("ETag", self.etag)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tree: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=str(tree))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_file_of_the_web_is_copied_once(
    web: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, to = f"{web}/deep/er/b%20c.bin", tmp_path / "b"
    assert counts(copied([url], str(to))) == (1, 0, 0)
    assert to.read_bytes() == LARGE
    assert counts(copied([url], str(to))) == (0, 1, 0)
    monkeypatch.setattr(Served, "etag", open_storage(str(tmp_path)).stat("b").etag)
    os.utime(tree / "deep" / "er" / "b c.bin", (2 * LONG_AGO_S, 2 * LONG_AGO_S))
    assert counts(copied([url], str(to))) == (0, 1, 0)
    monkeypatch.setattr(Served, "etag", "another")
    assert counts(copied([url], str(to))) == (1, 0, 0)


@pytest.mark.parametrize(
    ("sources", "to", "said"),
    [
        (["tree"], "tree/copy", "is in tree"),
        (["tree"], "http://127.0.0.1/x", "cannot be written"),
        (["tree", "tree/a.txt"], "new", "written twice, such as a.txt"),
        (["tree"], "ftp://x/", "Unknown kind of URL"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    tree: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], to: str, said: str
) -> None:
    monkeypatch.chdir(tree.parent)
    with pytest.raises(SpecError, match=said):
        planned(sources, to)
    assert os.listdir(tree.parent) == ["tree"]


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nope"):
        planned([str(tmp_path / "nope")], str(tmp_path / "new"))


def test_a_file_that_cannot_be_copied_stops_no_other(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "new" / "a.txt").mkdir(parents=True)
    target, copies = planned([str(tree)], str(tmp_path / "new"))
    (tree / "empty").write_bytes(b"not any more")
    result = Copying(target, copies).run(lambda so_far: None, 1.0)
    assert counts(result) == (1, 0, 2)
    reasons = {os.path.basename(path): reason for path, reason in result.failed}
    assert reasons["empty"] == "It changed while it was copied."
    assert "a.txt" in reasons["a.txt"]


def test_a_server_that_is_not_there_ends_the_copy(tree: Path, tmp_path: Path, quick: Patience) -> None:
    gone = open_storage("http://127.0.0.1:1", patience=quick._replace(tries=2))
    (entry,) = (each for each in open_storage(str(tree)).list() if each.key == "a.txt")
    copies = [Copy(gone, entry, f"{number}") for number in range(100)]
    with pytest.raises(Unreachable):
        Copying(open_storage(str(tmp_path / "new")), copies).run(lambda so_far: None, 1.0)
    assert files_in(tmp_path / "new") == {}
