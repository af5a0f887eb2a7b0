"""Rows with equal parameters as one: means, deviations, order, and names that are taken."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shoal.api.views.averages import Averages, average

COLUMNS = ["item", "state", "batch", "rate", "way", "seconds", "attempt", "node", "started", "error"]


def row(
    batch: Any, rate: Any, state: str = "done", way: Any = "plain", seconds: float = 1.0
) -> dict[str, Any]:
    return {"item": "t", "state": state, "batch": batch, "rate": rate, "way": way, "seconds": seconds}


def averaged(*rows: dict[str, Any], objective: str | None = None) -> Averages:
    return average(rows, COLUMNS, ["batch"], objective)


def test_trials_with_equal_parameters_become_one_row_sorted_by_them() -> None:
    found = averaged(row(10, 4.0), row(9, 1.0), row(10, 8.0, seconds=2.0), row(9, 3.0))
    assert found.columns == ["batch", "count", "rate", "deviation", "way", "seconds"]
    assert [(each["batch"], each["count"], each["rate"]) for each in found.rows] == [
        (9, 2, 2.0),
        (10, 2, 6.0),
    ]
    assert found.rows[1]["deviation"] == pytest.approx(math.sqrt(8))
    assert found.rows[1]["seconds"] == 1.5
    assert found.rows[1]["way"] == "plain"


def test_one_trial_alone_has_no_deviation() -> None:
    assert averaged(row(1, 4.0)).rows[0]["deviation"] is None


def test_failed_trials_are_counted_and_are_in_no_mean() -> None:
    found = averaged(row(1, 4.0), row(1, None, "failed"), row(2, None, "failed"), row(1, 100.0, "running"))
    assert found.columns[:3] == ["batch", "count", "failed"]
    assert [(each["count"], each["failed"], each["rate"]) for each in found.rows] == [
        (1, 1, 4.0),
        (0, 1, None),
    ]


def test_texts_that_differ_are_all_named() -> None:
    assert averaged(row(1, 4.0, way="b"), row(1, 4.0, way="a")).rows[0]["way"] == "a, b"


def test_the_best_is_that_of_the_mean_and_not_of_one_trial() -> None:
    found = averaged(row(1, 5.0), row(1, 5.0), row(2, 9.0), row(2, 0.0), row(3, math.nan), objective="rate")
    assert [each["batch"] for each in found.best("max", 2)] == [1, 2]
    assert [each["batch"] for each in found.best("min", 1)] == [2]


def test_blanks_numbers_and_texts_can_be_sorted_together() -> None:
    found = averaged(row("x", 1), row(10, 1), row(None, 1), row(9.5, 1))
    assert [each["batch"] for each in found.rows] == [None, 9.5, 10, "x"]


def test_a_parameter_named_like_a_column_of_ours_keeps_its_name() -> None:
    columns = ["item", "state", "count", "rate", "seconds"]
    rows = [{"item": "t", "state": "done", "count": 7, "rate": 1.0, "seconds": 1.0}] * 2
    (made,) = average(rows, columns, ["count"]).rows
    assert (made["count"], made["average.count"]) == (7, 2)


def test_without_an_objective_the_first_metric_that_holds_numbers_counts() -> None:
    rows = [{"item": "t", "state": "done", "a": 1, "text": "x", "number": n, "seconds": 1.0} for n in (1, 2)]
    found = average(rows, ["item", "state", "a", "text", "number", "seconds"], ["a"])
    assert found.metric == "number"
