"""How many threads libraries are told to use: as many as the worker has CPUs, where nobody said otherwise."""

from __future__ import annotations

import os

import pytest

from shoal.engine.workers.worker import THREAD_VARIABLES, set_threads


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*THREAD_VARIABLES, "SHOAL_THREADS"):
        monkeypatch.setenv(name, "")  # So that it is put back.
        monkeypatch.delenv(name)


def told() -> list[str | None]:
    return [os.environ.get(name) for name in THREAD_VARIABLES]


def test_a_worker_inside_a_trial_decides_anew() -> None:
    set_threads("8")
    assert told() == ["8"] * len(THREAD_VARIABLES)
    set_threads("1")
    assert told() == ["1"] * len(THREAD_VARIABLES)


def test_what_the_user_said_stays_in_a_worker_and_in_one_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    set_threads("8")
    set_threads("1")
    assert os.environ["OMP_NUM_THREADS"] == "8"
    assert os.environ["MKL_NUM_THREADS"] == "1"


def test_what_the_trial_itself_says_stays_in_a_worker_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_threads("8")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    set_threads("1")
    assert os.environ["OMP_NUM_THREADS"] == "3"
