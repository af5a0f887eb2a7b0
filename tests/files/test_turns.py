"""Turns in a storage: one after the other, each for one caller, whatever the storage is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shoal.files import Storage
from shoal.files.turns import is_over, take_turn


def test_a_turn_is_over_when_another_is_taken(storage: Storage) -> None:
    first = take_turn(storage, "runs/r/drivers")
    assert not is_over(storage, "runs/r/drivers", first)
    second = take_turn(storage, "runs/r/drivers")
    assert is_over(storage, "runs/r/drivers", first)
    assert not is_over(storage, "runs/r/drivers", second)
    assert take_turn(storage, "runs/other/drivers") == 1


def test_no_two_take_the_same_turn(storage: Storage) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: take_turn(storage, "turns"), range(8)))
    assert sorted(taken) == list(range(1, 9))
