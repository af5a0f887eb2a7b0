"""Files written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal import files


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    files.write_text(str(target), "old")
    files.write_text(str(target), "new\r\nü")
    assert target.read_bytes() == "new\r\nü".encode()
    files.write_bytes(str(target), b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_file_whose_writing_fails_keeps_its_old_content(tmp_path: Path) -> None:
    target = tmp_path / "results.csv"
    target.write_text("old")

    def write_half() -> None:
        with files.replacing(str(target)) as file:
            file.write("ne")
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        write_half()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.csv"]


def test_while_it_is_written_the_unfinished_part_is_hidden(tmp_path: Path) -> None:
    with files.replacing(str(tmp_path / "results.csv")):
        (unfinished,) = os.listdir(tmp_path)
    assert unfinished.startswith(".")


def test_a_name_as_long_as_names_may_be_is_written(tmp_path: Path) -> None:
    name = "ü" * 127
    files.write_bytes(str(tmp_path / name), b"long")
    assert os.listdir(tmp_path) == [name]
