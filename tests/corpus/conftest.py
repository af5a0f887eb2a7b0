"""The kept run folders of earlier versions, each unpacked for one test, and the command line in this process."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.cli import main

HERE = Path(__file__).parent
ERRORS = {16, 33, 50, 67, 84, 101, 118}
"""The lines of the inference that cannot be used."""
VERSIONS = sorted(archive.parent.name for archive in HERE.glob("*/sheet.tar.gz"))


class Case:
    """A folder in which runs of an earlier version were made; it is the current one."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capfd = capfd

    @property
    def run_folder(self) -> Path:
        [found] = (self.folder / ".shoal" / "runs").glob("[!.]*")
        return found

    @property
    def run(self) -> str:
        return self.run_folder.name

    def shoal(self, *arguments: str, code: int = 0) -> str:
        """A command, with this exit code: what it printed on stdout."""
        self._capfd.readouterr()
        ended = main(list(arguments))
        out, err = self._capfd.readouterr()
        assert ended == code, f"{out}\n{err}"
        assert "Traceback (most recent call last)" not in err, err
        return out

    def refused(self, *arguments: str, code: int = 2) -> str:
        """What is said on stderr where a command cannot be done."""
        self._capfd.readouterr()
        ended = main(list(arguments))
        out, err = self._capfd.readouterr()
        assert (ended, out) == (code, "")
        assert err.startswith("Error: "), err
        return err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.shoal(*arguments, code=code))

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("results", self.run, "--format=json")
        return found

    def ran(self) -> list[str]:
        """What trials noted when they began, all versions of Shoal together."""
        return (self.folder / "ran.txt").read_text().splitlines()


Unpack = Callable[[str], Case]


def digests(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def unpack(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Unpack:
    """Gives the case of this name, and goes to its folder."""

    def unpacked(name: str) -> Case:
        folder = tmp_path / name
        with tarfile.open(HERE / version / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        monkeypatch.chdir(folder)
        return Case(folder, capfd)

    return unpacked
