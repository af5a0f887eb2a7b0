"""When the outputs of two runtimes count as the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.work.models import difference

NAN, INFINITE = float("nan"), float("inf")


def scores(*rows: list[float]) -> np.ndarray[Any, Any]:
    return np.array(rows, dtype=np.float32)


def test_equal_outputs_agree() -> None:
    assert difference(scores([1, 2]), scores([1, 2])) == (0.0, None)


def test_a_small_difference_agrees_and_is_told() -> None:
    largest, why = difference(scores([1.0, 2000.0]), scores([1.0005, 2001.0]))
    assert why is None
    assert largest == pytest.approx(1.0)


def test_a_large_difference_does_not_agree() -> None:
    largest, why = difference(scores([1.0, 2.0]), scores([1.0, 2.01]))
    assert largest == pytest.approx(0.01, abs=1e-4)
    assert why is not None
    assert "differs by up to 0.01, more than 0.001 + 0.001 * |value|" in why


def test_half_precision_may_differ_by_more() -> None:
    assert difference(scores([1.0, 2.0]), scores([1.0, 2.01]), "float16")[1] is None


def test_another_class_on_top_does_not_agree() -> None:
    reference, other = scores([1000.0, 998.7]), scores([999.2, 999.3])
    assert difference(reference, other)[1] == "the output has another class on top in 1 of 1 rows"


def test_classes_that_are_as_good_as_equal_may_change_places() -> None:
    assert difference(scores([1.0, 0.9999]), scores([0.9999, 1.0]))[1] is None


def test_nan_and_infinity_agree_in_the_same_places() -> None:
    assert difference(scores([NAN, INFINITE, 1]), scores([NAN, INFINITE, 1])) == (0.0, None)
    assert difference(scores([NAN, 1]), scores([1, NAN]))[1] == "the output has NaN in other places"
    assert difference(scores([INFINITE, 1]), scores([-INFINITE, 1]))[1] is not None
    assert difference(scores([1.0, 1]), scores([INFINITE, 1]))[1] is not None


def test_other_shapes_and_numbers_of_outputs_do_not_agree() -> None:
    assert difference(scores([1, 2]), scores([1, 2, 3])) == (
        INFINITE,
        "the output has the shape (1, 3), as given (1, 2)",
    )
    assert (
        difference((scores([1]), scores([1])), scores([1]))[1] == "it gives 1 outputs, the model as given 2"
    )


def test_the_largest_difference_is_that_of_all_outputs() -> None:
    first, second = (scores([1.0]), scores([5.0])), (scores([1.0001]), scores([5.002]))
    assert difference(first, second)[0] == pytest.approx(0.002, abs=1e-5)


def test_whole_numbers_have_to_be_equal() -> None:
    assert difference(np.array([1, 2]), np.array([1, 2])) == (0.0, None)
    assert difference(np.array([1, 2]), np.array([1, 3]))[1] is not None


def test_nothing_agrees_with_nothing() -> None:
    assert difference(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32)) == (0.0, None)
