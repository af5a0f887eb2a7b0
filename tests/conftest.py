"""What every test gets: a table of leases and a home of its own, so that no test sees another, or the user's runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from testbed.fixtures import pytest_runtest_setup

__all__ = ["pytest_runtest_setup"]

settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.mktemp("surroundings")
    monkeypatch.setenv("SHOAL_LEASES", str(folder / "leases.json"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("SHOAL_HOME", raising=False)
