"""Where runs are kept, and which run a person means."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import NotFound, SpecError
from shoal.store import RunStore, find_home, make_home, resolve_run, run_ids
from shoal.store.home import Stub, keep

NOW = 1_700_000_000.0


def test_shoal_home_is_the_folder_itself(tmp_path: Path) -> None:
    (tmp_path / ".shoal").mkdir()
    assert find_home(str(tmp_path), {"SHOAL_HOME": "/data/shoal"}) == "/data/shoal"
    assert find_home(str(tmp_path), {"SHOAL_HOME": "there"}) == str(tmp_path / "there")
    assert find_home(str(tmp_path), {"SHOAL_HOME": ""}) == str(tmp_path / ".shoal")


def test_the_nearest_parent_with_a_home_is_used(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "a" / ".shoal").mkdir()
    assert find_home(str(inner), {}) == str(tmp_path / "a" / ".shoal")
    assert find_home(str(tmp_path), {}) == str(tmp_path / ".shoal")


def test_without_one_it_will_be_made_in_the_working_directory(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    inner.mkdir()
    (tmp_path / ".shoal").write_text("a file is not a home")
    assert find_home(str(inner), {}) == str(inner / ".shoal")


def test_a_new_home_keeps_itself_out_of_git(home: str) -> None:
    make_home(home)
    make_home(home)
    assert Path(home, ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("place", ["", "x", "runs"])
def test_a_file_in_the_way_is_named(tmp_path: Path, place: str) -> None:
    home = tmp_path / "home"
    blocker = home
    if place == "runs":
        home.mkdir()
        blocker = home / "runs"
    blocker.write_text("")
    with pytest.raises(SpecError, match=r"home(/runs)? is a file") as caught:
        make_home(str(home / place) if place == "x" else str(home))
    assert "SHOAL_HOME" in (caught.value.hint or "")


@pytest.mark.user
def test_a_folder_without_permission_is_an_error_that_names_shoal_home(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(SpecError, match="Permission denied") as caught:
            make_home(str(tmp_path / ".shoal"))
    finally:
        tmp_path.chmod(0o755)
    assert "SHOAL_HOME" in (caught.value.hint or "")


def test_a_run_is_found_by_id_prefix_name_and_last(home: str, make_run: Callable[..., RunStore]) -> None:
    make_run("next-cell", now=NOW + 5)  # 0000
    make_run("next-cell", now=NOW + 9)  # 0001
    make_run("next-cell", now=NOW + 7)  # 0002
    make_run("mnist", now=NOW)  # 0003
    assert run_ids(home) == ["mnist-0003", "next-cell-0000", "next-cell-0001", "next-cell-0002"]
    assert resolve_run(home, "next-cell-0000") == "next-cell-0000"
    assert resolve_run(home, "mn") == "mnist-0003"
    assert resolve_run(home, "mnist") == "mnist-0003"
    assert resolve_run(home, "next-cell") == "next-cell-0001"
    assert resolve_run(home, "last") == "next-cell-0001"
    with pytest.raises(NotFound, match="the start of 3 runs: next-cell-0000"):
        resolve_run(home, "next")


@pytest.mark.parametrize("text", ["next-cell-0007", "", "../runs", "next-cell-0000/run.db", "*"])
def test_a_run_that_is_not_there_gets_the_nearest_id(
    home: str, make_run: Callable[..., RunStore], text: str
) -> None:
    make_run()
    with pytest.raises(NotFound, match="There is no run") as caught:
        resolve_run(home, text)
    assert "next-cell-0000" in (caught.value.hint or "")


def test_without_runs_the_hint_says_where_it_looked(home: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_run(home, "last")
    assert caught.value.hint == f"There are no runs in {home}."


def test_half_made_and_foreign_folders_are_no_runs(home: str, run: RunStore) -> None:
    Path(home, "runs", "half-made-1234").mkdir()
    Path(home, "runs", ".removed-x").mkdir()
    Path(home, "runs", "file").write_text("")
    assert run_ids(home) == [run.run]


def test_when_a_run_cannot_be_made_nothing_is_left_of_it(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shoal.store.sqlite.sync_file", fail)
    with pytest.raises(SpecError, match="No space left"):
        RunStore.create(
            home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
        )
    assert os.listdir(os.path.join(home, "runs")) == []


def test_homes_runs_and_stubs_are_closed_to_other_users(
    tmp_path: Path, make_run: Callable[..., RunStore]
) -> None:
    home = tmp_path / "new" / "home"
    make_home(str(home))
    keep(str(home), Stub("x-0000", "sweep", "x", "lab.yaml", "x.yaml", NOW))
    run = Path(make_run().folder)
    for folder in (home, home / "runs", home / "detached", run):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_home_that_a_group_shares_stays_theirs(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    home = str(tmp_path / "home")
    run = RunStore.create(
        home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
    )
    run.close()
    for folder in (home, os.path.join(home, "runs"), run.folder):
        assert os.stat(folder).st_mode & 0o2057 == 0o2050
