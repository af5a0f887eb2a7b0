"""The list of runs: quick, and right even when the index is missing, damaged, behind or in use."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import RunLocked, SpecError
from shoal.store import RunStore, list_runs, remove, run_ids

NOW = 1_700_000_000.0


def states(home: str) -> dict[str, str]:
    return {summary.run: summary.state for summary in list_runs(home)}


def test_runs_are_listed_newest_first(home: str, make_run: Callable[..., RunStore]) -> None:
    for age in (5, 1, 9):
        make_run(now=NOW - age)
    assert [summary.created for summary in list_runs(home)] == [NOW - 1, NOW - 5, NOW - 9]
    (newest, *_) = list_runs(home)
    assert (newest.kind, newest.name, newest.folder) == (
        "sweep",
        "next-cell",
        os.path.join(home, "runs", newest.run),
    )


def test_there_may_be_no_runs_at_all(home: str) -> None:
    assert list_runs(home) == []


def test_a_run_without_its_driver_is_listed_as_interrupted(home: str, run: RunStore) -> None:
    run.set_state("running", NOW)
    assert states(home) == {run.run: "running"}
    run.close()
    assert states(home) == {run.run: "interrupted"}
    assert states(home) == {run.run: "interrupted"}
    with RunStore.open(home, run.run, write=True) as again:
        again.set_state("running", NOW + 5)
        assert states(home) == {run.run: "running"}
        again.set_state("failed", NOW + 6)
    assert states(home) == {run.run: "failed"}


def spoil(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "garbage":
        path.write_bytes(b"garbage" * 5000)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "damaged":
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * (path.stat().st_size - 100))
    elif how == "foreign":
        path.unlink()
        connection = sqlite3.connect(path)
        connection.executescript("CREATE TABLE runs(x); PRAGMA user_version=7")
        connection.close()
    elif how == "folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("how", ["missing", "garbage", "empty", "cut", "damaged", "foreign", "folder"])
def test_a_spoilt_index_is_rebuilt_without_a_word(home: str, run: RunStore, how: str) -> None:
    run.set_state("running", NOW)
    spoil(Path(home, "index.db"), how)
    assert states(home) == {run.run: "running"}
    run.set_state("succeeded", NOW + 3)
    assert states(home) == {run.run: "succeeded"}


def test_an_index_that_missed_a_driver_is_put_right(home: str, run: RunStore) -> None:
    run.set_state("succeeded", NOW)
    assert states(home) == {run.run: "succeeded"}
    kept = Path(home, "index.db").read_bytes()
    run.close()
    with RunStore.open(home, run.run, write=True) as again:
        again.set_state("running", NOW + 1)
    Path(home, "index.db").write_bytes(kept)
    assert states(home) == {run.run: "interrupted"}


def test_an_index_that_cannot_be_written_fails_nothing(home: str, run: RunStore) -> None:
    blocker = sqlite3.connect(Path(home, "index.db"))
    blocker.execute("BEGIN EXCLUSIVE")
    try:
        run.set_state("running", NOW)
        assert states(home) == {run.run: "running"}
    finally:
        blocker.close()
    assert run.state() == "running"


def test_folders_that_came_or_went_by_hand_are_seen(home: str, make_run: Callable[..., RunStore]) -> None:
    one, two = make_run(), make_run()
    one.set_state("succeeded", NOW)
    two.set_state("failed", NOW)
    assert len(list_runs(home)) == 2
    two.close()
    shutil.move(two.folder, os.path.join(home, "elsewhere"))
    assert states(home) == {one.run: "succeeded"}
    shutil.move(os.path.join(home, "elsewhere"), two.folder)
    assert states(home) == {one.run: "succeeded", two.run: "failed"}


def test_a_run_that_cannot_be_read_does_not_hide_the_others(
    home: str, make_run: Callable[..., RunStore]
) -> None:
    one, two = make_run(), make_run()
    two.close()
    Path(two.folder, "run.db").write_bytes(b"x" * 5000)
    Path(home, "index.db").unlink()
    assert states(home) == {one.run: "queued"}


def test_many_drivers_update_the_index_at_once(home: str) -> None:
    script = """
import sys
from shoal.store import RunStore
tokens = iter(range(100))
for number in range(20):
    with RunStore.create(sys.argv[1], name=sys.argv[2], kind="sweep", spec_text="", document={},
                         token=lambda: f"{next(tokens):04x}", now=1.0) as store:
        store.set_state("running", 2.0)
        store.set_state("succeeded", 3.0)
"""
    drivers = [
        subprocess.Popen([sys.executable, "-c", script, home, name]) for name in ("one", "two", "three")
    ]
    assert [driver.wait() for driver in drivers] == [0, 0, 0]
    assert set(states(home).values()) == {"succeeded"}
    assert len(list_runs(home)) == 60


def test_a_removed_run_is_gone(home: str, make_run: Callable[..., RunStore]) -> None:
    one, two = make_run(), make_run()
    with pytest.raises(RunLocked):
        remove(home, one.run, now=NOW)
    one.close()
    remove(home, one.run, now=NOW)
    assert run_ids(home) == [two.run]
    assert list(states(home)) == [two.run]
    assert os.listdir(os.path.join(home, "runs")) == [two.run]
    with pytest.raises(SpecError):
        remove(home, one.run, now=NOW)
