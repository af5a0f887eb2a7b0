"""What every storage that can be written does, the same way."""

from __future__ import annotations

import errno
import io
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import FileError, NotFound, ShoalError, SpecError
from shoal.files import Storage, open_storage

NAMES = [
    "plain",
    "with space",
    "ünïcödé",
    "100%25",
    "a#b?c",
    "a+b&c=d",
    "[x]*",
    "~'()!",
    "deep/er/still",
    "n" * 200,
]
LARGE = os.urandom(1024) * (20 * 1024 + 1)  # Larger than two pieces, and no whole number of them.


def keys(storage: Storage, prefix: str = "", pattern: str | None = None) -> list[str]:
    return sorted(entry.key for entry in storage.list(prefix, pattern))


@pytest.mark.parametrize("key", NAMES)
def test_what_is_written_is_read_and_listed_under_its_key(storage: Storage, key: str) -> None:
    storage.write(key, b"content of " + key.encode())
    assert storage.read(key) == b"content of " + key.encode()
    assert keys(storage) == [key]
    assert storage.exists(key)
    (entry,) = storage.list()
    assert entry.size_bytes == len(storage.read(key))
    assert entry == storage.stat(key)


def test_writing_again_replaces_and_changes_the_etag(storage: Storage) -> None:
    storage.write("a", b"old")
    before = storage.stat("a")
    storage.write("a", b"newer")
    assert storage.read("a") == b"newer"
    assert storage.stat("a").etag != before.etag
    assert keys(storage) == ["a"]


def test_an_empty_file_is_a_file(storage: Storage, tmp_path: Path) -> None:
    storage.write("empty", b"")
    assert storage.read("empty") == b""
    with storage.open("empty") as file:
        assert file.read() == b""
    storage.download("empty", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b""


@pytest.mark.parametrize(
    ("start", "length", "part"),
    [
        (0, 3, b"012"),
        (4, 3, b"456"),
        (7, None, b"789"),
        (7, 99, b"789"),
        (10, 5, b""),
        (50, 5, b""),
        (50, None, b""),
        (3, 0, b""),
    ],
)
def test_a_part_is_read(storage: Storage, start: int, length: int | None, part: bytes) -> None:
    storage.write("digits", b"0123456789")
    assert storage.read("digits", start=start, length=length) == part


def test_a_large_file_goes_up_and_comes_back_in_pieces(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    storage.write("large", tmp_path / "large")
    assert storage.stat("large").size_bytes == len(LARGE)
    storage.download("large", tmp_path / "below" / "copy")
    assert (tmp_path / "below" / "copy").read_bytes() == LARGE
    with storage.open("large") as file:
        assert file.read(10) == LARGE[:10]
        assert file.seek(-5, io.SEEK_END) == len(LARGE) - 5
        assert file.read() == LARGE[-5:]
        file.seek(0)
        assert file.read() == LARGE
    storage.write("large", LARGE)
    assert storage.read("large") == LARGE


def test_what_is_not_there_is_not_found(storage: Storage, tmp_path: Path) -> None:
    storage.write("folder/file", b"")
    for key in ("nothing", "folder/nothing", "folder", "folder/file/below"):
        assert not storage.exists(key)
        with pytest.raises(NotFound, match=key):
            storage.stat(key)
        with pytest.raises(NotFound, match=key):
            storage.read(key)
        with pytest.raises(NotFound, match=key):
            storage.open(key)
        with pytest.raises(NotFound, match=key):
            storage.download(key, tmp_path / "copy")
        storage.delete(key) if key != "folder" else None
    assert not (tmp_path / "copy").exists()
    assert keys(storage) == ["folder/file"]


def test_troubles_with_the_local_file_are_told_with_its_path(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="missing-here"):
        storage.write("x", tmp_path / "missing-here")
    assert keys(storage) == []
    storage.write("x", b"x")
    (tmp_path / "file").touch()
    with pytest.raises(ShoalError, match="file/copy"):
        storage.download("x", tmp_path / "file" / "copy")


def test_an_empty_storage_lists_nothing(storage: Storage) -> None:
    assert keys(storage) == []
    assert keys(storage, "some/folder") == []


def test_what_is_deleted_is_gone(storage: Storage) -> None:
    storage.write("a/b", b"x")
    storage.write("a/c", b"x")
    storage.delete("a/b")
    storage.delete("a/b")
    assert keys(storage) == ["a/c"]


def test_what_is_moved_is_under_its_new_key_alone(storage: Storage) -> None:
    storage.write("a/b", b"new")
    storage.write("there", b"old")
    storage.move("a/b", "there")
    storage.move("there", "deep/er/still")
    assert keys(storage) == ["deep/er/still"]
    assert storage.read("deep/er/still") == b"new"
    with pytest.raises(NotFound, match="a/b"):
        storage.move("a/b", "there")
    with pytest.raises(SpecError):
        storage.move("deep/er/still", "../out")
    assert keys(storage) == ["deep/er/still"]


def test_a_prefix_is_a_folder(storage: Storage) -> None:
    for key in ("a/1", "a/b/2", "ab/3", "4"):
        storage.write(key, b"")
    assert keys(storage, "a") == keys(storage, "a/") == ["a/1", "a/b/2"]
    assert keys(storage, "a/b") == ["a/b/2"]
    assert keys(storage, "4") == []


@pytest.mark.parametrize(
    ("prefix", "pattern", "expected"),
    [
        ("", "*.jpg", ["x.jpg"]),
        ("", "**/*.jpg", ["2024/a/1.jpg", "2024/b/2.jpg", "2024/3.jpg", "x.jpg"]),
        ("", "2024/*/*.jpg", ["2024/a/1.jpg", "2024/b/2.jpg"]),
        ("2024", "*/*", ["2024/a/1.jpg", "2024/b/2.jpg"]),
        ("2024", "[ab]/?.jpg", ["2024/a/1.jpg", "2024/b/2.jpg"]),
        ("", "2024/**", ["2024/3.jpg", "2024/a/1.jpg", "2024/b/2.jpg"]),
        ("", ".hidden/*", [".hidden/4.jpg"]),
        (".hidden", None, [".hidden/4.jpg"]),
    ],
)
def test_a_pattern_chooses(storage: Storage, prefix: str, pattern: str | None, expected: list[str]) -> None:
    for key in ("2024/a/1.jpg", "2024/b/2.jpg", "2024/3.jpg", "x.jpg", ".hidden/4.jpg", "2024/.part.jpg"):
        storage.write(key, b"")
    assert keys(storage, prefix, pattern) == sorted(expected)


def test_hidden_names_are_listed_on_request(storage: Storage) -> None:
    for key in ("a", ".b", "c/.d", ".e/f"):
        storage.write(key, b"")
    assert sorted(entry.key for entry in storage.list(hidden=True)) == [".b", ".e/f", "a", "c/.d"]
    assert sorted(entry.key for entry in storage.list("", "*", hidden=True)) == [".b", "a"]


@pytest.mark.parametrize("key", ["", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", "./a", "a\0b"])
def test_no_key_leaves_the_storage(storage: Storage, key: str, tmp_path: Path) -> None:
    actions = [
        lambda: storage.read(key),
        lambda: storage.open(key),
        lambda: storage.stat(key),
        lambda: storage.exists(key),
        lambda: storage.write(key, b""),
        lambda: storage.write_new(key, b""),
        lambda: storage.delete(key),
        lambda: storage.download(key, tmp_path / "copy"),
    ]
    for action in actions:
        with pytest.raises(SpecError, match="is no key"):
            action()
    if key and key != "a/":
        with pytest.raises(SpecError, match="is no key"):
            list(storage.list(key))


def test_of_several_who_create_a_file_one_is_told_so(storage: Storage) -> None:
    start = threading.Barrier(8)

    def create(number: int) -> bool:
        start.wait(30)
        return storage.write_new("lock", f"mine: {number}".encode())

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(create, range(8)))
    assert told.count(True) == 1
    assert storage.read("lock") == f"mine: {told.index(True)}".encode()
    assert not storage.write_new("lock", b"late")
    assert keys(storage) == ["lock"]
    assert keys(storage, pattern=".*") == []


def test_readers_see_the_old_content_or_the_new(storage: Storage) -> None:
    contents = [bytes([number]) * 300_000 for number in range(20)]
    storage.write("x", contents[0])
    ended = threading.Event()
    seen = []

    def read() -> None:
        while not ended.is_set():
            seen.append(storage.read("x"))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for content in contents:
                storage.write("x", content)
        finally:
            ended.set()
        for reader in readers:
            reader.result(60)
    assert seen
    assert set(seen) <= set(contents)


def test_many_threads_use_one_storage(storage: Storage) -> None:
    def there_and_back(number: int) -> bool:
        content = str(number).encode() * 1000
        storage.write(f"{number % 3}/{number}", content)
        return storage.read(f"{number % 3}/{number}") == content

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, range(60)))
    assert len(keys(storage)) == 60


def test_a_storage_crosses_processes(storage: Storage) -> None:
    storage.write("x", b"here")
    again = pickle.loads(pickle.dumps(storage))
    assert again.url == storage.url
    assert again.read("x") == b"here"


def test_after_a_fork_a_storage_works_or_says_why_not(storage: Storage) -> None:
    storage.write("x", b"here")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if storage.read("x") == b"here" else 2
        except FileError as error:
            code = 0 if "fork" in str(error) else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_storage_that_was_made_before_a_fork_is_used_after_it(storage: Storage, tmp_path: Path) -> None:
    program = """
import os, pickle, sys
storage = pickle.load(sys.stdin.buffer)
pid = os.fork()
if pid == 0:
    storage.write("x", b"from below")
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(storage), check=True, timeout=60)
    assert storage.read("x") == b"from below"


def test_without_hard_links_or_linux_a_new_file_is_complete_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def full(_descriptor: int) -> None:
        if (tmp_path / "x").exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    storage = open_storage(str(tmp_path))
    monkeypatch.setattr("os.link", no_links)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # A system library without renameat2.
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(FileError, match="No space left"):
            storage.write_new("x", b"content")
    assert os.listdir(tmp_path) == []
    assert storage.write_new("x", b"content")
    assert not storage.write_new("x", b"other")
    assert storage.read("x") == b"content"
