"""Converted models on disk: made once, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.work.models.conversions import digest_of, forget, kept, key_of

MAKE = """
import os, sys
from shoal.work.models.conversions import kept
cache, log = sys.argv[1:]
def make(folder):
    with open(log, "a") as file:
        file.write("made\\n")
    with open(os.path.join(folder, "model.bin"), "wb") as file:
        file.write(bytes(1 << 20))
print(os.path.getsize(os.path.join(kept(cache, "key", make), "model.bin")))
"""


def test_of_several_processes_one_converts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", MAKE, str(tmp_path / "cache"), str(log)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert answers == {str(1 << 20)}
    assert log.read_text() == "made\n"


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: str) -> None:
        Path(folder, "half.bin").write_bytes(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        kept(str(tmp_path), "key", fail)
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".lock")] == []


def test_what_a_killed_one_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".key.part").mkdir()
    (tmp_path / ".key.part" / "half.bin").write_bytes(b"half")
    folder = kept(str(tmp_path), "key", lambda aside: Path(aside, "whole.bin").touch())
    assert os.listdir(folder) == ["whole.bin"]


def test_a_forgotten_one_is_made_again(tmp_path: Path) -> None:
    made: list[str] = []
    for _ in range(2):
        kept(str(tmp_path), "key", made.append)
    assert len(made) == 1
    forget(str(tmp_path), "key")
    forget(str(tmp_path), "key")
    kept(str(tmp_path), "key", made.append)
    assert len(made) == 2


def test_another_file_version_or_way_has_another_key(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    first, second = digest_of(str(tmp_path / "a")), digest_of(str(tmp_path / "b"))
    keys = {key_of(first, ["numpy"]), key_of(second, ["numpy"]), key_of(first, []), key_of(first, [], "way")}
    assert len(keys) == 4
    assert key_of(first, ["numpy"]) in keys
