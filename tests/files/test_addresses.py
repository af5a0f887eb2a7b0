"""From paths, URLs and patterns to storages and files; what is wrong is said before anything is connected to."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from shoal import files
from shoal.errors import AccessDenied, NotFound, SpecError
from shoal.files import find, is_among, is_url, open_storage


def found(target: str, folder: Path) -> list[str]:
    storage, entries = find(target, folder=str(folder))
    return sorted(os.path.relpath(f"{storage.url}/{entry.key}", folder) for entry in entries)


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    for name in ("crawl/a.gz", "crawl/b.gz", "crawl/c.txt", "crawl/deep/d.gz", "crawl/.e.gz", "odd[1]/f.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("crawl", ["crawl/a.gz", "crawl/b.gz", "crawl/c.txt", "crawl/deep/d.gz"]),
        ("crawl/", ["crawl/a.gz", "crawl/b.gz", "crawl/c.txt", "crawl/deep/d.gz"]),
        ("crawl/*.gz", ["crawl/a.gz", "crawl/b.gz"]),
        ("crawl/**/*.gz", ["crawl/a.gz", "crawl/b.gz", "crawl/deep/d.gz"]),
        ("*/[ab].gz", ["crawl/a.gz", "crawl/b.gz"]),
        ("crawl/c.txt", ["crawl/c.txt"]),
        ("odd[1]", ["odd[1]/f.gz"]),
        ("odd[1]/f.gz", ["odd[1]/f.gz"]),
    ],
)
def test_a_path_or_pattern_finds_its_files(crawl: Path, target: str, expected: list[str]) -> None:
    assert found(target, crawl) == expected
    assert found(str(crawl / target), crawl) == expected
    assert found((crawl / "x").as_uri()[:-1] + target, crawl) == expected


@pytest.mark.parametrize("target", ["nothing", "crawl/*.jpg", "nothing/*.gz", "crawl/c.txt/x", "empty"])
def test_finding_nothing_is_an_error_that_names_what_was_sought(crawl: Path, target: str) -> None:
    (crawl / "empty").mkdir()
    with pytest.raises(NotFound, match=target.replace("*", r"\*")):
        found(target, crawl)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter2@bucket/x",
        "http://me:hunter2@host/x",
        "hdfs://me:hunter2@host:9000/x",
        "https://hunter2@h/x",
    ],
)
def test_a_url_with_a_password_is_refused_and_the_password_not_repeated(url: str) -> None:
    for action in (open_storage, find):
        with pytest.raises(SpecError, match="password") as caught:
            action(url)
        assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("endpoint", ["http://me:hunter2@host:9000", "host:9000", "ftp://host", "http://"])
def test_an_endpoint_is_an_address_without_secrets(endpoint: str) -> None:
    with pytest.raises(SpecError) as caught:
        open_storage("s3://bucket", endpoint=endpoint)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gs://bucket/x", "gs://"),
        ("s4://bucket/x", "s4://"),
        ("s3:///x", "bucket"),
        ("s3://", "bucket"),
        ("http:///x", "host"),
        ("http://host/../../x", "no key"),
        ("http://host/a//b", "no key"),
    ],
)
def test_a_url_that_names_nothing_is_refused(url: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        open_storage(url)


def test_an_endpoint_is_for_buckets_only(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="endpoint is for s3"):
        open_storage(str(tmp_path), endpoint="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "expected"), [("s3://b/x", True), ("file:///x", True), ("a/b", False), ("c:/x", False)]
)
def test_urls_are_told_from_paths(text: str, expected: bool) -> None:
    assert is_url(text) is expected


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [("s3://bucket", "obstore", "s3"), ("hdfs://host:1/x", "hdfs_native", "hdfs")],
)
def test_a_missing_extra_is_named(url: str, library: str, extra: str) -> None:
    program = f"""
import sys
sys.modules[{library!r}] = None
from shoal.errors import SpecError
from shoal.files import open_storage
try:
    open_storage({url!r})
except SpecError as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"pip install 'shoal[{extra}]'\n"


def test_opening_a_folder_loads_no_client() -> None:
    program = "import sys, shoal.files; shoal.files.open_storage('.'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"obstore", "hdfs_native", "urllib.request", "ssl"} & set(done.stdout.split()) == set()


@pytest.mark.parametrize("name", files.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(files, name) is not None
    assert not hasattr(files, "nonsense")


def test_a_folder_is_listed_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 folders with 50 files each, only a few have been opened when the first entries come."""
    for number in range(2000):
        (tmp_path / f"{number:04}").mkdir()
    for number in range(0, 2000, 100):
        for name in range(50):
            (tmp_path / f"{number:04}" / str(name)).touch()
    opened = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: opened.append(path) or scandir(path))
    entries = open_storage(str(tmp_path)).list()
    assert len(list(islice(entries, 10))) == 10
    assert len(opened) < 150
    assert len(list(entries)) == 990
    assert len(opened) == 2001


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_of_many_files_in_one_folder_the_first_comes_before_the_rest_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    for number in range(count):
        os.close(os.open(tmp_path / str(number), os.O_CREAT))
    read = []

    class Counted:
        def __init__(self, path: str) -> None:
            self._found = scandir(path)

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self._found.close()

        def __iter__(self) -> Counted:
            return self

        def __next__(self) -> os.DirEntry[str]:
            read.append(1)
            return next(self._found)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", Counted)
    entries = open_storage(str(tmp_path)).list()
    next(entries)
    assert len(read) < 10
    assert sum(1 for _ in entries) == count - 1


def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "own").write_text("own")
    (root / "inner").symlink_to("own")
    (root / "link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(".")
    storage = open_storage(str(root))
    assert sorted(entry.key for entry in storage.list()) == ["inner", "own"]
    assert storage.read("inner") == b"own"
    for key in ("link", "folder/secret"):
        with pytest.raises(AccessDenied, match="leaves"):
            storage.read(key)
    with pytest.raises(AccessDenied, match="leaves"):
        storage.write("folder/new", b"")
    with pytest.raises(AccessDenied, match="leaves"):
        storage.delete("folder/secret")
    storage.write("link", b"replaced")
    assert (outside / "secret").read_text() == "secret"
    assert sorted(os.listdir(outside)) == ["secret"]


def test_a_link_to_a_folder_may_be_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("x")
    (tmp_path / "link").symlink_to("real")
    assert found("link", tmp_path) == ["link/x"]


@pytest.mark.user
def test_a_file_without_rights_is_denied_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "x").chmod(0)
    with pytest.raises(AccessDenied, match="x"):
        open_storage(str(tmp_path)).read("x")


@pytest.mark.parametrize(
    "target", ["crawl", "crawl/*.gz", "crawl/**/*.gz", "*/[ab].gz", "crawl/c.txt", "odd[1]"]
)
def test_whether_a_file_would_be_found_is_known_without_looking_for_it(crawl: Path, target: str) -> None:
    for key in ("a.gz", "c.txt", "deep/d.gz", "deep/.g.gz", ".e.gz"):
        is_found = f"crawl/{key}" in found(target, crawl)
        assert is_among(target, "crawl", key, folder=str(crawl)) == is_found
        remote = is_among(f"s3://bucket/{target}", "s3://bucket/crawl", key)
        assert remote == is_found
        assert not is_among(f"s3://bucket/{target}", "s3://other/crawl", key)
        assert not is_among(target, "s3://bucket/crawl", key, folder=str(crawl))
