"""A real HDFS: who may do what, servers that are not there, and patterns."""

from __future__ import annotations

import socket

import pytest

from servers.hdfs import HdfsFolder
from shoal.errors import AccessDenied, NotFound, Unreachable
from shoal.files import Patience, find, open_storage

pytestmark = pytest.mark.hdfs


def test_another_user_is_denied(hdfs_folder: HdfsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    open_storage(hdfs_folder.url).write("x", b"x")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    storage = open_storage(hdfs_folder.url)
    assert storage.read("x") == b"x"
    with pytest.raises(AccessDenied, match=r"/x may not be used.*somebody-else"):
        storage.write("x", b"y")


def test_a_path_or_pattern_finds_its_files(hdfs_folder: HdfsFolder) -> None:
    storage = open_storage(hdfs_folder.url)
    for key in ("2024/a/1.gz", "2024/2.gz", "2024/3.txt"):
        storage.write(key, key.encode())

    def found(target: str) -> list[bytes]:
        where, entries = find(f"{hdfs_folder.url}/{target}")
        return sorted(where.read(entry.key) for entry in entries)

    assert found("2024/**/*.gz") == [b"2024/2.gz", b"2024/a/1.gz"]
    assert found("2024") == found("2024/") == [b"2024/2.gz", b"2024/3.txt", b"2024/a/1.gz"]
    assert found("2024/3.txt") == [b"2024/3.txt"]
    with pytest.raises(NotFound, match="nothing"):
        found("nothing")


def test_nobody_there_is_said_with_the_number_of_tries(hdfs_folder: HdfsFolder, quick: Patience) -> None:
    storage = open_storage("hdfs://127.0.0.1:1/x", patience=quick._replace(tries=2))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 cannot be used .*refused.* Tried 2 times\."):
        storage.read("x")


def test_a_server_that_says_nothing_is_given_up(hdfs_folder: HdfsFolder, quick: Patience) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        patience = quick._replace(tries=2, connect_s=0.2, answer_s=0.3)
        storage = open_storage(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/x", patience=patience)
        with pytest.raises(Unreachable, match=r"Tried 2 times\."):
            storage.read("x")
