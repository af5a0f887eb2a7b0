"""When another node is worth starting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import Plan, Prediction
from shoal.planner.node_growth import Spare, grow, grown, saved_s, why_not
from shoal.planner.scalability import Usl

seconds = st.floats(0.0, 1e6)
spare = st.builds(Spare, st.just("n"), st.integers(1, 64), st.floats(0.1, 600.0))


@given(seconds, st.integers(1, 100), spare)
def test_a_node_never_saves_more_than_what_is_left_when_it_is_up(
    left: float, workers: int, node: Spare
) -> None:
    assert 0.0 <= saved_s(left, workers, node) <= max(0.0, left - node.start_s)


def test_what_a_node_saves_is_the_difference_between_the_two_ends() -> None:
    # 60 s for one worker; a second from second 10 on: 10 s alone, 50 s of work for two.
    assert saved_s(60.0, 1, Spare("n", 1, 10.0)) == pytest.approx(60.0 - (10.0 + 50.0 / 2))


@pytest.mark.parametrize(
    ("left_s", "expected"),
    [(5.0, 0), (30.0, 0), (40.0, 1), (80.0, 2), (200.0, 3)],
    ids=["over before it is up", "not worth it", "one", "two", "all"],
)
def test_nodes_are_started_as_long_as_each_saves_more_than_its_start_takes(
    left_s: float, expected: int
) -> None:
    spares = [Spare(f"n{number}", 1, 10.0) for number in range(3)]
    assert len(grow(left_s, 1, spares, 3)) == expected


@given(seconds, st.integers(1, 50), st.lists(spare, max_size=6), st.integers(0, 6))
def test_there_are_never_more_than_allowed(left: float, workers: int, spares: list[Spare], most: int) -> None:
    assert len(grow(left, workers, spares, most)) <= most


def test_every_start_has_a_reason_with_its_figures() -> None:
    [growth] = grow(60.0, 1, [Spare("n1", 1, 10.0)], 3)
    assert growth.host == "n1"
    assert growth.why == "1m of work are left for 1 worker; it saves 25s, its start takes 10s"


def test_a_plan_counts_on_the_nodes_that_will_be_started() -> None:
    plan = Plan("sweep", "s", 600, 1, Prediction(54.0, 60.0, 66.0))
    with_one = grown(plan, [Spare("n1", 1, 10.0)], 2)
    assert with_one.predicted_seconds == pytest.approx((31.5, 35.0, 38.5))
    assert [(each.name, each.choice) for each in with_one.decisions] == [("scale", "n1")]
    assert grown(plan, [Spare("n1", 1, 50.0)], 2).predicted_seconds == plan.predicted_seconds
    assert grown(plan._replace(predicted_seconds=None), [], 2).predicted_seconds is None


def test_what_workers_do_together_as_measured_decides_what_a_node_saves() -> None:
    # Two do 4/3 of what one does: 10 s alone, and three quarters of the 50 s that would be left.
    assert saved_s(60.0, 1, Spare("n", 1, 10.0), Usl(1.0, 0.5)) == pytest.approx(60.0 - (10.0 + 50.0 * 0.75))


def test_without_a_law_and_with_an_even_one_the_same_is_saved() -> None:
    node = Spare("n", 2, 10.0)
    assert saved_s(60.0, 2, node, Usl(7.0)) == pytest.approx(saved_s(60.0, 2, node))


@given(seconds, st.integers(1, 100), spare, st.floats(0.0, 1.0), st.floats(0.0, 0.1))
def test_a_node_saves_nothing_negative_and_no_more_than_with_even_growth(
    left: float, workers: int, node: Spare, contention: float, coherence: float
) -> None:
    saved = saved_s(left, workers, node, Usl(3.0, contention, coherence))
    assert 0.0 <= saved <= saved_s(left, workers, node) + 1e-6 * left


def test_a_node_that_no_longer_pays_is_not_started_and_the_plan_says_so() -> None:
    law = Usl(10.0, 0.0, 0.05)  # The most at between four and five workers.
    spares = [Spare(f"n{number}", 1, 1.0) for number in range(9)]
    hosts = [growth.host for growth in grow(3600.0, 1, spares, 9, law)]
    assert hosts == ["n0", "n1", "n2"]
    assert len(grow(3600.0, 1, spares, 9)) == 9
    plan = grown(Plan("infer", "i", 600, 1, Prediction(3600.0, 3600.0, 3600.0)), spares, 9, law)
    [decision] = plan.decisions
    assert decision.choice == "n0, n1, n2"
    assert decision.why.endswith(
        "as measured, 4 workers do 8% more than 3; "
        "n3 no longer pays: as measured, 5 workers would do 25/s and 4 do 25/s"
    )


def test_a_node_that_pays_but_comes_too_late_is_refused_for_its_start() -> None:
    assert why_not(15.0, 1, Spare("n1", 1, 10.0)) == "n1 would save 2.5s, and its start takes 10s"
    assert why_not(60.0, 1, Spare("n1", 1, 10.0)) is None
