"""Turns in a storage: one after the other, each for one caller, whatever the storage is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shoal.files import Storage
from shoal.files.turns import Turns


def test_the_last_turn_is_the_highest_that_somebody_took(storage: Storage) -> None:
    turns = Turns(storage, "runs/r/turns")
    assert turns.highest() == 0
    assert turns.take(1, {"pid": 1})
    assert turns.take(12, {"pid": 2})
    assert not turns.take(12, {"pid": 3})
    assert turns.highest() == 12
    assert turns.driver(12) == {"pid": 2}
    assert turns.driver(5) == {}
    assert Turns(storage, "runs/other/turns").highest() == 0


def test_no_two_take_the_same_turn(storage: Storage) -> None:
    turns = Turns(storage, "turns")
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(lambda pid: turns.take(1, {"pid": pid}), range(8))) == [False] * 7 + [True]
