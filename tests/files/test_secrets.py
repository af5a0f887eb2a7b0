"""Files that only their owner may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.files import write_secret


def test_a_secret_is_its_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("something longer that anybody could read")
    path.chmod(0o644)
    write_secret(str(path), "s3cret")
    assert path.read_text() == "s3cret"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_not_written_through_a_link(tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", tmp_path / "token")
    with pytest.raises(OSError, match="symbolic links"):
        write_secret(str(tmp_path / "token"), "s3cret")
    assert not (tmp_path / "elsewhere").exists()
