"""What was measured is remembered under a fingerprint, within bounds, and forgetting it fails nothing."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.store import make_home, profiles
from shoal.store.profiles import recall, remember


@pytest.fixture
def kept(home: str) -> str:
    make_home(home)
    return home


def test_nothing_is_known_at_first(home: str) -> None:
    assert recall(home, "f") is None


def test_durations_come_back_by_content(kept: str) -> None:
    remember(kept, "f", "8 cpu", list({"a": 1.0, "b": 3.0}.items()), now=1.0, startup_s=0.5)
    found = recall(kept, "f")
    assert found is not None
    assert (found.fingerprint, found.node_kind, found.measured) == ("f", "8 cpu", 2)
    assert (found.mean_s, found.variance_s2, found.startup_s) == (2.0, 1.0, 0.5)
    assert found.seconds == {"a": 1.0, "b": 3.0}
    assert recall(kept, "other") is None


def test_measured_again_it_is_the_mean_of_both(kept: str) -> None:
    remember(kept, "f", "n", list({"a": 1.0}.items()), now=1.0, startup_s=1.0)
    remember(kept, "f", "n", list({"a": 2.0, "b": 9.0}.items()), now=2.0)
    found = recall(kept, "f")
    assert found is not None
    assert found.seconds == {"a": 1.5, "b": 9.0}
    assert (found.measured, found.startup_s) == (3, 1.0)


def test_kinds_of_nodes_are_kept_apart_and_the_latest_is_given(kept: str) -> None:
    remember(kept, "f", "slow", list({"a": 4.0}.items()), now=1.0)
    remember(kept, "f", "fast", list({"a": 1.0}.items()), now=2.0)
    slow, latest = recall(kept, "f", "slow"), recall(kept, "f")
    assert slow is not None
    assert latest is not None
    assert (slow.mean_s, latest.mean_s) == (4.0, 1.0)


def test_only_the_newest_durations_are_kept(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_CONTENTS", 10)
    monkeypatch.setattr(profiles, "MAX_PROFILES", 2)
    remember(kept, "f", "n", list({f"old{i}": 1.0 for i in range(10)}.items()), now=1.0)
    remember(kept, "f", "n", list({f"new{i}": 1.0 for i in range(8)}.items()), now=2.0)
    found = recall(kept, "f")
    assert found is not None
    assert len(found.seconds) == 10
    assert sum(name.startswith("new") for name in found.seconds) == 8
    assert found.measured == 18
    remember(kept, "g", "n", list({"a": 1.0}.items()), now=3.0)
    remember(kept, "h", "n", list({"a": 1.0}.items()), now=4.0)
    assert recall(kept, "f") is None
    assert recall(kept, "h") is not None


@given(st.lists(st.lists(st.floats(0, 1000), min_size=1, max_size=20), min_size=1, max_size=4))
def test_mean_and_variance_are_those_of_all_measurements_together(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[float]]
) -> None:
    home = str(tmp_path_factory.mktemp("home"))
    for at, run in enumerate(runs):
        remember(
            home, "f", "n", list({f"{at}-{i}": value for i, value in enumerate(run)}.items()), now=float(at)
        )
    found, everything = recall(home, "f"), [value for run in runs for value in run]
    assert found is not None
    assert found.mean_s == pytest.approx(statistics.fmean(everything), abs=1e-9)
    assert found.variance_s2 == pytest.approx(statistics.pvariance(everything), rel=1e-6, abs=1e-6)


def test_a_damaged_file_is_forgotten(kept: str) -> None:
    remember(kept, "f", "n", list({"a": 1.0}.items()), now=1.0)
    Path(kept, "profiles.db").write_bytes(b"garbage" * 3000)
    assert recall(kept, "f") is None
    remember(kept, "f", "n", list({"a": 2.0}.items()), now=1.0)
    found = recall(kept, "f")
    assert found is not None
    assert found.seconds == {"a": 2.0}


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    remember(str(tmp_path / "home"), "f", "n", list({"a": 1.0}.items()), now=1.0)
    assert recall(str(tmp_path / "home"), "f") is None


def test_each_measurement_of_a_repeated_item_counts(kept: str) -> None:
    remember(kept, "f", "n", [("a", 1.0), ("a", 3.0), ("b", 5.0)], now=1.0)
    profile = recall(kept, "f")
    assert profile is not None
    assert (profile.measured, profile.mean_s) == (3, pytest.approx(3.0))
    assert profile.seconds == {"a": pytest.approx(2.0), "b": 5.0}
