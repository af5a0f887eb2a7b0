"""What every test gets: a table of leases and a home of its own, so that no test sees another, or the user's runs."""

from __future__ import annotations

import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from servers.hdfs import hdfs, hdfs_folder
from servers.seaweedfs import bucket, seaweed
from servers.spark import spark_master
from servers.unreliable import unreliable

__all__ = ["bucket", "hdfs", "hdfs_folder", "seaweed", "spark_master", "unreliable"]

pytest_plugins = ["needs", "shards"]

for number, handler in ((signal.SIGHUP, lambda *_: None), (signal.SIGINT, signal.default_int_handler)):
    # In the background, or under nohup, they are ignored, and children would do that, too.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

settings.register_profile("shoal", deadline=None, print_blob=True)
settings.load_profile("shoal")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.mktemp("surroundings")
    monkeypatch.setenv("SHOAL_LEASES", str(folder / "leases.json"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("SHOAL_HOME", raising=False)


class Wheels:
    """A folder of packages that pip finds without a network, and a cache of its own to install them into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "wheels"
        self.folder.mkdir()
        self.cache = folder / "cache"
        self.environment = {
            "XDG_CACHE_HOME": str(self.cache),
            "PIP_FIND_LINKS": str(self.folder),
            "PIP_NO_INDEX": "1",
            "PIP_NO_CACHE_DIR": "1",
        }

    def make(
        self, name: str, version: str = "1.0", requires: Sequence[str] = (), program: str | None = None
    ) -> None:
        """A package with one module of the same name that knows its version, and perhaps a program."""
        info = f"{name}-{version}.dist-info"
        needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
        files = {
            f"{name}.py": f"version = {version!r}\ndef main():\n    print('version:', version)\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if program is not None:
            files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{program} = {name}:main\n"
        files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(self.folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)

    def installs(self) -> int:
        """How often an installation was begun."""
        logs = (self.cache / "shoal" / "packages").glob("*.log")
        return sum(log.read_text().count("--- installing") for log in logs)

    def environments(self) -> list[Path]:
        """The environments that are complete."""
        return [path.parent for path in (self.cache / "shoal" / "packages").glob("*/complete")]

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Wheels:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        return self


def some_wheels(folder: Path) -> Wheels:
    """Packages `shoalfish` (1.0, 2.0, which needs `shoalfin`) and `shoalfin`."""
    made = Wheels(folder)
    made.make("shoalfish", "1.0")
    made.make("shoalfish", "2.0", requires=["shoalfin"], program="shoalfish")
    made.make("shoalfin", "0.5")
    return made


@pytest.fixture
def wheels(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    """Packages of which none is installed, and nothing that other tests installed."""
    return some_wheels(tmp_path_factory.mktemp("packages")).use(monkeypatch)


@pytest.fixture(scope="session")
def _stock(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    return some_wheels(tmp_path_factory.mktemp("stock"))


@pytest.fixture
def stocked(_stock: Wheels, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    """The same packages, for tests that use what is installed, whoever installed it: an install takes seconds."""
    return _stock.use(monkeypatch)
