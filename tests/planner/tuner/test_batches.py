"""Batch sizes: the model of a batch's time, and the way to the best one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.planner.tuner.batches import BatchModel, fit, next_to, rows_needed, smooth


@given(
    st.floats(0.0, 1.0),
    st.floats(1e-4, 1.0),
    st.lists(st.integers(1, 1024), min_size=2, max_size=6, unique=True),
)
def test_the_time_of_a_batch_is_found_again_from_two_sizes(
    overhead: float, each: float, sizes: list[int]
) -> None:
    model = BatchModel(overhead, each)
    found = fit({size: model.rate(size) for size in sizes})
    assert found is not None
    for size in sizes:
        assert found.rate(size) == pytest.approx(model.rate(size), rel=1e-3)


@given(st.dictionaries(st.integers(1, 4096), st.floats(1e-3, 1e6), max_size=8))
def test_a_fit_to_anything_gives_rates_above_zero(rates: dict[int, float]) -> None:
    found = fit(rates)
    assert (found is None) == (not rates)
    if found is not None:
        assert all(found.rate(batch) > 0 for batch in (1, 7, 4096))


@pytest.mark.parametrize(
    ("surface", "steps", "share"),
    [
        (lambda b: 20_000 * b / (b + 100), 8, 0.99),
        (lambda b: 1 + 0.033 * min(b.bit_length() - 1, 3) - 0.03 * max(0, b.bit_length() - 4), 8, 0.99),
        (lambda b: 1 / b, 3, 1.0),
    ],
    ids=["a GPU", "a processor", "one at a time"],
)
def test_the_best_batch_is_reached_in_few_steps(
    surface: Callable[[int], float], steps: int, share: float
) -> None:
    rates: dict[int, float] = {1: surface(1)}
    while following := next_to(rates, 1024):
        rates[following[0]] = surface(following[0])
    assert len(rates) <= steps
    assert max(rates.values()) >= share * max(surface(2**power) for power in range(11))


@given(
    st.dictionaries(st.integers(1, 2048), st.floats(1e-3, 1e6), max_size=8),
    st.integers(1, 2048),
)
def test_what_is_looked_at_next_is_new_and_within_bounds(rates: dict[int, float], largest: int) -> None:
    for batch in next_to(rates, largest):
        assert 1 <= batch <= largest
        assert batch not in rates


def test_a_measurement_has_enough_batches_and_seconds() -> None:
    assert rows_needed(8, None) == 40
    assert rows_needed(8, 10.0) == 40
    assert rows_needed(8, 1600.0) == 800
    assert rows_needed(1024, 20_000.0, batches=3) == 6 * 1024


def test_a_rate_that_stands_out_among_its_neighbours_is_moved_towards_them() -> None:
    rates = {2: (1.03, 4.0), 4: (1.12, 1.0), 8: (1.10, 4.0), 16: (1.07, 4.0), 32: (1.03, 4.0)}
    moved = smooth(rates, 2.0)
    assert moved[4] < 1.1
    assert max(moved, key=lambda batch: moved[batch]) == 8
    assert moved[16] == pytest.approx(1.07, abs=0.01)
    few = {1: (1.0, 1.0), 2: (1.2, 1.0), 4: (1.1, 1.0)}
    assert smooth(few, 2.0) == {1: 1.0, 2: 1.2, 4: 1.1}
