"""The Universal Scalability Law: fitted, and asked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.planner.scalability import Usl, fit, solve

laws = st.builds(Usl, st.floats(0.1, 1e4), st.floats(0.0, 0.5), st.floats(0.0, 0.05))


@given(laws, st.lists(st.integers(1, 32), min_size=3, max_size=8, unique=True))
def test_a_law_is_found_again_from_three_points_that_follow_it(law: Usl, counts: list[int]) -> None:
    found = fit((count, law.throughput(count)) for count in counts)
    assert found is not None
    for count in counts:
        assert found.throughput(count) == pytest.approx(law.throughput(count), rel=1e-3)


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(1e-3, 1e6)), min_size=1, max_size=10))
def test_a_fit_to_anything_is_a_law_without_negative_figures(points: list[tuple[int, float]]) -> None:
    found = fit(points)
    assert found is not None
    assert found.first > 0
    assert found.contention >= 0
    assert found.coherence >= 0


def test_one_point_says_that_it_grows_evenly() -> None:
    assert fit([(4, 20.0)]) == pytest.approx(Usl(5.0))


def test_two_points_say_how_much_they_hinder_each_other() -> None:
    found = fit([(1, 10.0), (4, 20.0)])
    assert found is not None
    assert found.throughput(1) == pytest.approx(10.0)
    assert found.throughput(4) == pytest.approx(20.0)
    assert found.gain(4) < 0.1


def test_points_that_cannot_be_used_are_left_out() -> None:
    assert fit([]) is None
    assert fit([(0, 1.0), (1, 0.0), (2, math.inf)]) is None


def test_more_workers_do_less_beyond_the_peak() -> None:
    law = Usl(10.0, 0.02, 0.01)
    peak = math.sqrt(0.98 / 0.01)
    assert law.gain(round(peak) + 1) < 0 < law.gain(round(peak) - 2)


def test_enough_is_where_the_next_no_longer_pays() -> None:
    assert Usl(10.0).enough(8) == 8
    stuck = Usl(10.0, 0.0, 1 / 12)  # The most at between three and four.
    assert stuck.throughput(4) == pytest.approx(stuck.throughput(3))
    assert stuck.enough(4) == 3


def test_equations_without_a_single_answer_have_none() -> None:
    assert solve([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]) is None
    assert solve([[0.0, 2.0], [2.0, 0.0]], [2.0, 4.0]) == pytest.approx([2.0, 1.0])


def test_among_many_that_do_not_hinder_each_other_one_more_still_pays() -> None:
    even = Usl(1.0)
    assert even.pays(60)
    assert even.enough(64) == 64
    assert not Usl(1.0, contention=0.1).pays(60)
