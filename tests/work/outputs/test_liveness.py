"""Whether a run is being driven, seen from its own machine, from another folder there, and from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.files import open_storage
from shoal.files.machine import machine_name
from shoal.files.turns import Turns
from shoal.store import run_folder
from shoal.store.driver import Driver, RunLock
from shoal.work.outputs.ownership import address, is_alive

RUN = "lengths-aaaa"
TURNS = Turns(open_storage("/no/such/folder"), "turns")
"""Of a run whose drivers left no word."""


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with a run in it."""
    found = str(tmp_path / "one" / ".shoal")
    os.makedirs(run_folder(found, RUN))
    return found


@pytest.mark.parametrize("output", ["out/", "s3://bucket/out"])
def test_a_run_of_this_home_is_alive_as_long_as_its_lock_is_held(home: str, output: str) -> None:
    told = address(home, output)
    lock = RunLock.take(os.path.join(run_folder(home, RUN), "lock"), run=RUN, now=0.0)
    try:
        assert is_alive(RUN, told, home, TURNS) is True
    finally:
        lock.release()
    assert is_alive(RUN, told, home, TURNS) is False
    os.rename(run_folder(home, RUN), os.path.join(home, "removed"))
    assert is_alive(RUN, told, home, TURNS) is None, "it may be hidden from us"


def test_a_run_of_another_home_of_this_machine_is_seen_where_the_output_is_here(
    home: str, tmp_path: Path
) -> None:
    other = str(tmp_path / "two" / ".shoal")
    lock = RunLock.take(os.path.join(run_folder(home, RUN), "lock"), run=RUN, now=0.0)
    try:
        assert is_alive(RUN, address(home, "out/"), other, TURNS) is True
        assert is_alive(RUN, address(home, "s3://bucket/out"), other, TURNS) is None
    finally:
        lock.release()
    assert is_alive(RUN, address(home, "out/"), other, TURNS) is False


@pytest.mark.parametrize("told", ["another-machine:/home/me/.shoal", "0123456789abcdef", ""])
def test_of_a_run_of_another_machine_nothing_is_known(tmp_path: Path, told: str) -> None:
    assert is_alive(RUN, told, str(tmp_path / ".shoal"), TURNS) is None


def test_a_copy_of_a_run_in_our_home_says_nothing_of_its_driver_elsewhere(home: str) -> None:
    """It was resumed here once, and is driven from another machine by now."""
    assert is_alive(RUN, "0123456789abcdef0123456789abcdef:/home/me/.shoal", home, TURNS) is None


def test_a_lock_that_is_free_proves_nothing_where_another_machine_drives(home: str) -> None:
    """On a disk that both see, with locks that each has for itself."""
    assert is_alive(RUN, f"0123456789abcdef0123456789abcdef:{home}", home, TURNS) is None


def test_the_machine_of_an_earlier_version_is_known_by_its_name(home: str) -> None:
    assert is_alive(RUN, f"{os.uname().nodename}:{home}", home, TURNS) is False


def test_a_storage_that_others_read_is_not_told_the_names_of_folders(home: str) -> None:
    told = address(home, "s3://bucket/out")
    assert "/" not in told
    assert machine_name() not in told
    assert told != address(f"{home}2", "s3://bucket/out")


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, True), ({"start": 0}, False), ({"machine": "another"}, None)],
    ids=["alive", "gone", "elsewhere"],
)
def test_of_a_run_that_was_removed_its_last_driver_tells(
    tmp_path: Path, change: dict[str, object], expected: bool | None
) -> None:
    turns = Turns(open_storage(str(tmp_path)), "turns")
    turns.take(1, Driver.this()._replace(machine="before")._asdict())
    turns.take(2, Driver.this()._replace(**change)._asdict())  # type: ignore[arg-type]
    assert is_alive(RUN, "", str(tmp_path / ".shoal"), turns) is expected
