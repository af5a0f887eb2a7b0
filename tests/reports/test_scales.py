"""Axes: every value has its place on them, and their marks can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.reports import scales

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(NUMBERS, max_size=20), st.booleans())
def test_a_linear_axis_holds_any_numbers(values: list[float], from_zero: bool) -> None:
    axis = scales.linear("x", values, from_zero=from_zero)
    places = [axis.at(value) for value in sorted(values)]
    assert all(0 <= place <= 1 for place in places)
    assert places == sorted(places)
    assert 2 <= len(axis.marks) <= 12
    assert [mark.at for mark in axis.marks] == sorted({mark.at for mark in axis.marks})


@given(st.lists(NUMBERS, max_size=20))
def test_axes_that_choose_their_scale_hold_any_numbers(values: list[float]) -> None:
    for axis in (
        scales.of_numbers("x", values),
        scales.logarithmic("x", values),
        scales.doubling("x", values),
    ):
        assert all(0 <= axis.at(value) <= 1 for value in values)
        assert 1 <= len(axis.marks) <= 24
        assert all(0 <= mark.at <= 1 for mark in axis.marks)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 10], ["0", "2", "4", "6", "8", "10"]),
        ([0.81, 0.87], ["0.80", "0.82", "0.84", "0.86", "0.88"]),
        ([0, 12_000], ["0", "5,000", "10,000", "15,000"]),
        ([-1, 1], ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        ([7], ["2", "4", "6", "8", "10", "12"]),
    ],
)
def test_marks_are_at_round_numbers(values: list[float], labels: list[str]) -> None:
    assert [mark.label for mark in scales.linear("x", values).marks] == labels


def test_learning_rates_are_drawn_by_their_logarithms() -> None:
    axis = scales.of_numbers("lr", [0.0001, 0.001, 0.01, 0.1])
    assert [mark.label for mark in axis.marks] == ["0.0001", "0.001", "0.01", "0.1"]
    assert axis.at(0.001) - axis.at(0.0001) == pytest.approx(axis.at(0.1) - axis.at(0.01))
    assert not scales.of_numbers("layers", [1, 2, 4]).is_logarithmic
    assert not scales.of_numbers("x", [-1, 0.001, 100]).is_logarithmic


def test_batches_have_a_mark_at_each_power_of_two() -> None:
    assert [mark.label for mark in scales.doubling("batch", [1, 2, 4, 7, 8]).marks] == ["1", "2", "4", "8"]
    assert [mark.label for mark in scales.doubling("batch", [64]).marks] == ["32", "64", "128"]


def test_workers_are_whole() -> None:
    axis = scales.linear("workers", [1, 2], from_zero=True, least=1.0)
    assert [mark.label for mark in axis.marks] == ["0", "1", "2"]


def test_a_word_has_a_part_of_the_axis() -> None:
    axis = scales.of_words("", ["adam", "sgd"])
    assert [(mark.label, mark.at) for mark in axis.marks] == [("adam", 0.25), ("sgd", 0.75)]
    assert (axis.at(0), axis.at(1)) == (0.25, 0.75)


def test_numbers_that_are_spread_evenly_are_not_drawn_by_their_logarithms() -> None:
    assert not scales.of_numbers("dropout", [0.001, 0.1, 0.2, 0.3, 0.4, 0.5]).is_logarithmic
