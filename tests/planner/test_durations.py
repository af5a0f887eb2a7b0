"""What is learned about durations, and what follows from it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import Item
from shoal.planner.durations import Durations, interval, makespan, predict, remaining
from shoal.shape.pool import queue

SECONDS = st.lists(st.floats(0.001, 1e4), min_size=1, max_size=60)


def item(content: str = "", **params: object) -> Item:
    return Item(1, "t1", params, content=content)


def test_nothing_is_expected_before_anything_was_measured() -> None:
    assert Durations().expect(item("a")) is None
    assert Durations().mean_s is None


def test_an_item_that_was_measured_is_expected_to_take_as_long_again() -> None:
    durations = Durations()
    durations.tell("a", {}, 3.0)
    durations.tell("a", {}, 5.0)
    durations.tell("b", {}, 100.0)
    assert durations.expect(item("a")) == pytest.approx(4.0)


def test_the_effect_of_parameters_is_learned_and_carries_over_to_other_combinations() -> None:
    durations = Durations()
    random = Random(1)
    for epochs in (1, 10):
        for model in ("small", "large"):
            if (epochs, model) == (10, "large"):
                continue
            for _ in range(10):
                seconds = epochs * (1 if model == "small" else 5) * random.uniform(0.9, 1.1)
                durations.tell("", {"epochs": epochs, "model": model}, seconds)
    unseen = durations.expect(item(epochs=10, model="large"))
    seen = durations.expect(item(epochs=1, model="small"))
    assert unseen is not None
    assert seen is not None
    assert unseen > 3 * seen


def test_a_value_that_was_never_seen_counts_as_long() -> None:
    durations = Durations()
    for seconds, kind in ((1.0, "a"), (2.0, "b"), (4.0, "c")) * 5:
        durations.tell("", {"kind": kind}, seconds)
    known = [durations.expect(item(kind=kind)) or 0 for kind in "abc"]
    unknown = durations.expect(item(kind="z"))
    assert unknown is not None
    assert unknown > known[1]


@given(st.lists(st.floats(1e-6, 1e5), min_size=1))
def test_the_mean_is_that_of_the_durations(seconds: list[float]) -> None:
    durations = Durations()
    for each in seconds:
        durations.tell("", {}, each)
    mean = sum(seconds) / len(seconds)
    assert durations.mean_s == pytest.approx(mean)


@given(SECONDS, st.integers(1, 20))
def test_nobody_waits_while_there_is_something_to_do(seconds: list[float], workers: int) -> None:
    found = makespan(seconds, workers)
    assert max(sum(seconds) / workers, max(seconds)) <= found + 1e-6
    assert found <= sum(seconds) / workers + (1 - 1 / workers) * max(seconds) + 1e-6


@given(st.lists(st.floats(1.0, 1e4), min_size=1, max_size=6), st.integers(1, 3))
def test_longest_first_is_never_worse_than_four_thirds_of_the_best(
    seconds: list[float], workers: int
) -> None:
    best = min(
        max(sum(each for each, on in zip(seconds, places, strict=True) if on == worker) for worker in places)
        for places in product(range(workers), repeat=len(seconds))
    )
    assert best <= makespan(seconds, workers) + 1e-6
    assert makespan(seconds, workers) <= best * (4 / 3 - 1 / (3 * workers)) + 1e-6


@given(SECONDS, st.integers(1, 20), st.floats(0, 100))
def test_a_prediction_lies_in_its_own_range(seconds: list[float], workers: int, spread: float) -> None:
    prediction = predict(seconds, spread, workers, 0.5)
    assert 0 <= prediction.low <= prediction.mid <= prediction.high
    assert interval(10.0, 0.0, 1, 1).high < interval(10.0, 5.0, 1, 1).high


def test_what_remains_is_spread_over_the_workers_but_never_less_than_the_longest_running() -> None:
    assert remaining([1.0] * 10, [], 5) == pytest.approx(2.0)
    assert remaining([], [30.0, 1.0], 5) == pytest.approx(30.0)


@given(st.floats(1e-7, 1e4), st.integers(0, 10**6), st.integers(1, 1000))
def test_a_worker_never_has_more_ahead_than_the_horizon_allows(
    mean: float, waiting: int, workers: int
) -> None:
    count = queue.items_ahead(mean, waiting, workers)
    assert 1 <= count <= queue.MOST_ITEMS
    assert count == 1 or count * mean <= queue.HORIZON_S * 1.001


def test_the_first_items_are_handed_out_one_by_one() -> None:
    assert queue.items_ahead(None, 10**6, 2) == 1


def test_a_worker_far_away_has_the_next_item_before_the_last_has_ended() -> None:
    assert queue.items_ahead(0.05, 1000, 3, latency_s=0.01) == 2
    assert queue.items_ahead(0.05, 1000, 3, latency_s=0.0) == 1
    assert queue.items_ahead(0.05, 1, 3, latency_s=0.01) == 1, "at the end each takes one"
    assert queue.items_ahead(60.0, 1000, 3, latency_s=0.01) == 1, "beside a long item, the way is short"
    assert queue.items_ahead(0.001, 1000, 3, latency_s=0.01) == 50
