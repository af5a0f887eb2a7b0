"""Folders on their way between machines: what makes no sense elsewhere is left out, or refused by name beforehand."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from shoal.engine.ray import shipment
from shoal.errors import SpecError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "deep" / "empty").mkdir(parents=True)
    (made / "deep" / "file").write_text("content")
    (made / ".hidden").write_text("too")
    (made / "inward").symlink_to("deep/file")
    return made


def spoil(folder: Path) -> None:
    (folder / "absolute").symlink_to("/etc/hostname")
    (folder / "outward").symlink_to("../../elsewhere")
    os.mkfifo(folder / "pipe")


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_archive_of_somebody_else_cannot_end_anything(folder: Path, tmp_path: Path) -> None:
    spoil(folder)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
        archive.addfile(tarfile.TarInfo("../above"))
    shipment.extract(buffer.getvalue(), str(tmp_path / "there"))
    assert names(tmp_path / "there") == [".hidden", "deep", "deep/empty", "deep/file", "inward"]
    assert not (tmp_path / "above").exists()


def test_links_out_of_a_workload_are_named_before_it_is_shipped(folder: Path) -> None:
    assert "inward" in shipment.ensure_shippable(str(folder))
    spoil(folder)
    with pytest.raises(
        SpecError, match=r"absolute \(to /etc/hostname\), outward \(to .*elsewhere\)"
    ) as error:
        shipment.ensure_shippable(str(folder))
    assert ".shoalignore" in str(error.value.hint)
    (folder / ".shoalignore").write_text("absolute\noutward\n")
    assert "inward" in shipment.ensure_shippable(str(folder))


def test_credentials_are_not_shipped_and_that_is_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / ".env").write_text("API_KEY=1")
    for _ in range(2):
        package = shipment.pack(str(folder))
    with tarfile.open(fileobj=io.BytesIO(package.data)) as archive:
        assert ".env" not in archive.getnames()
        assert ".hidden" in archive.getnames()
    said = [line for line in caplog.messages if "credentials" in line]
    assert said == [
        "Left out, as they may hold credentials: .env. A line !NAME in .shoalignore takes one along."
    ]
