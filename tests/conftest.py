"""What every test gets: a table of leases and a home of its own, so that no test sees another, or the user's runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from servers.hdfs import hdfs, hdfs_folder  # noqa: F401 - fixtures
from servers.seaweedfs import bucket, seaweed  # noqa: F401 - fixtures
from servers.unreliable import unreliable  # noqa: F401 - fixtures

settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.mktemp("surroundings")
    monkeypatch.setenv("SHOAL_LEASES", str(folder / "leases.json"))
    monkeypatch.delenv("SHOAL_HOME", raising=False)
