"""What is on the disk before a file takes its name: what a power cut, which no test can make, would leave."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal import files
from shoal.files.local import LocalStorage

Step = tuple[str, str]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """What was synced and named, in order; a file aside is `aside`. The calls do what they always do."""
    found: list[Step] = []

    def shown(path: str) -> str:
        name = os.path.basename(path)
        return "aside" if name.endswith(".part") else name

    def recorded(name: str, path_of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            path = path_of(*arguments)
            done = real(*arguments, **options)
            found.append((name, shown(path)))
            return done

        monkeypatch.setattr(os, name, call)

    recorded("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    recorded("link", lambda _, target: target)
    recorded("replace", lambda _, target: target)
    return found


def test_a_new_file_is_on_the_disk_before_it_has_its_name_and_its_name_before_it_counts(
    tmp_path: Path, steps: list[Step]
) -> None:
    assert LocalStorage(str(tmp_path / "root")).write_new("part", b"rows")
    assert steps == [("fsync", "aside"), ("link", "part"), ("fsync", "root")]


def test_a_file_that_replaces_another_is_on_the_disk_before_it_does(
    tmp_path: Path, steps: list[Step]
) -> None:
    files.write_text(str(tmp_path / "file"), "text")
    assert steps == [("fsync", "aside"), ("replace", "file"), ("fsync", tmp_path.name)]


def test_without_hard_links_a_file_is_still_complete_from_the_first_moment(
    tmp_path: Path, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on exFAT: links are refused, and a name that is taken stays with who has it."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    storage = LocalStorage(str(tmp_path / "root"))
    assert storage.write_new("part", b"rows")
    assert steps == [("fsync", "aside"), ("fsync", "root")], "nothing was written under its final name"
    assert storage.read("part") == b"rows"
    monkeypatch.setattr("os.path.lexists", lambda path: False)  # Somebody makes it right after the look.
    assert not storage.write_new("part", b"others")
    assert storage.read("part") == b"rows"
    assert os.listdir(tmp_path / "root") == ["part"]
