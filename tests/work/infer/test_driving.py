"""Whether a run is being driven, seen from its own machine, from another folder there, and from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.files.machine import machine_name
from shoal.store import run_folder
from shoal.store.lock import RunLock
from shoal.work.infer.driving import address, is_alive

RUN = "lengths-aaaa"


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
        assert is_alive(RUN, told, home) is True
    finally:
        lock.release()
    assert is_alive(RUN, told, home) is False
    os.rename(run_folder(home, RUN), os.path.join(home, "removed"))
    assert is_alive(RUN, told, home) is None, "it may be hidden from us"


def test_a_run_of_another_home_of_this_machine_is_seen_where_the_output_is_here(
    home: str, tmp_path: Path
) -> None:
    other = str(tmp_path / "two" / ".shoal")
    lock = RunLock.take(os.path.join(run_folder(home, RUN), "lock"), run=RUN, now=0.0)
    try:
        assert is_alive(RUN, address(home, "out/"), other) is True
        assert is_alive(RUN, address(home, "s3://bucket/out"), other) is None
    finally:
        lock.release()
    assert is_alive(RUN, address(home, "out/"), other) is False


@pytest.mark.parametrize("told", ["another-machine:/home/me/.shoal", "0123456789abcdef", ""])
def test_of_a_run_of_another_machine_nothing_is_known(tmp_path: Path, told: str) -> None:
    assert is_alive(RUN, told, str(tmp_path / ".shoal")) is None


def test_a_copy_of_a_run_in_our_home_says_nothing_of_its_driver_elsewhere(home: str) -> None:
    """It was resumed here once, and is driven from another machine by now."""
    assert is_alive(RUN, "0123456789abcdef0123456789abcdef:/home/me/.shoal", home) is None


def test_a_lock_that_is_free_proves_nothing_where_another_machine_drives(home: str) -> None:
    """On a disk that both see, with locks that each has for itself."""
    assert is_alive(RUN, f"0123456789abcdef0123456789abcdef:{home}", home) is None


def test_the_machine_of_an_earlier_version_is_known_by_its_name(home: str) -> None:
    assert is_alive(RUN, f"{os.uname().nodename}:{home}", home) is False


def test_a_storage_that_others_read_is_not_told_the_names_of_folders(home: str) -> None:
    told = address(home, "s3://bucket/out")
    assert "/" not in told
    assert machine_name() not in told
    assert told != address(f"{home}2", "s3://bucket/out")
