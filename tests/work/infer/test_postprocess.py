"""Columns from what a model gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engine.workers.runner import Failed
from shoal.spec.infer import Postprocess
from shoal.work.infer.postprocess import finishing, softmax
from shoal.work.models.batch_fit import Outputs

SCORES = np.array([[2.0, 1.0, 0.0], [0.0, 5.0, 4.0]], dtype=np.float32)


def columns(outputs: Any, count: int = 2, **spec: Any) -> dict[str, Any]:
    found, errors = finishing(Postprocess(**spec))(outputs, count)
    assert errors == {}
    return dict(found)


def refused(outputs: Any, count: int = 2, **spec: Any) -> str:
    with pytest.raises(Failed) as caught:
        finishing(Postprocess(**spec))(outputs, count)
    return str(caught.value)


def test_softmax_and_labels_give_the_best_label_and_its_probability() -> None:
    found = columns(SCORES, softmax=True, labels=("a", "b", "c"))
    assert list(found) == ["label", "prob"]
    assert found["label"] == ["a", "b"]
    np.testing.assert_allclose(found["prob"], [0.66524096, 0.7274752], rtol=1e-5)
    assert found["prob"].dtype == np.float32


def test_without_softmax_prob_is_the_score() -> None:
    assert columns(SCORES, labels=("a", "b", "c"))["prob"].tolist() == [2.0, 5.0]


def test_without_labels_the_number_of_the_class_is_given() -> None:
    label = columns(SCORES, softmax=True)["label"]
    assert label.tolist() == [0, 1]
    assert label.dtype == np.int64


def test_the_best_few_come_in_order() -> None:
    found = columns(SCORES, labels=("a", "b", "c"), top=2)
    assert list(found) == ["label", "prob", "labels", "probs"]
    assert found["labels"] == [["a", "b"], ["b", "c"]]
    assert found["probs"].tolist() == [[2.0, 1.0], [5.0, 4.0]]
    assert columns(SCORES, top=3)["labels"].tolist() == [[0, 1, 2], [1, 2, 0]]
    assert list(columns(SCORES, top=1)) == ["label", "prob"]


def test_the_probability_of_a_label_has_its_own_column() -> None:
    found = columns(SCORES, softmax=True, labels=("a", "b", "c"), prob_of=("c", "a"))
    assert list(found) == ["label", "prob", "prob_c", "prob_a"]
    np.testing.assert_allclose(found["prob_a"], softmax(SCORES)[:, 0])


def test_softmax_stands_large_and_infinite_scores() -> None:
    infinite = float("inf")
    rows = np.array(
        [[1e30, 0.0], [infinite, 3.0], [infinite, infinite], [-infinite, 0.0], [-infinite, -infinite]]
    )
    assert softmax(rows).tolist() == [[1, 0], [1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]]


def test_of_equal_scores_the_first_class_wins() -> None:
    assert columns(np.ones((2, 3), np.float32), top=2)["labels"].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_one_number_for_each_input_is_a_value(shape: tuple[int, ...]) -> None:
    values = np.array([0.5, 0.25], np.float32).reshape(shape)
    assert columns(values)["value"].tolist() == [0.5, 0.25]
    assert columns(values, top=1)["value"].tolist() == [0.5, 0.25]
    assert "which of them a score means is not said" in refused(values, labels=("off", "on"))
    assert "softmax of a single score is always 1" in refused(values, softmax=True)


def test_without_postprocess_outputs_are_as_they_are() -> None:
    assert columns(SCORES)["output"] is SCORES
    maps = np.zeros((2, 4, 3, 3), np.float32)
    assert columns(maps)["output"].shape == (2, 4, 3, 3)


def test_several_outputs_have_numbers_or_the_names_of_the_model() -> None:
    outputs = Outputs((SCORES, SCORES[:, 0]))
    assert list(columns(outputs)) == ["output_0", "output_1"]
    outputs.names = ("boxes", "scores")
    assert list(columns(outputs)) == ["boxes", "scores"]
    assert "gives 2 outputs (2x3 and 2), and postprocess needs one" in refused(outputs, softmax=True)


def test_rows_with_nan_are_errors_and_the_others_are_not() -> None:
    rows = np.array([[1.0, 2.0], [float("nan"), 1.0], [float("inf"), 0.0]], np.float32)
    reason = {1: "the model returned NaN"}
    for spec in (Postprocess(), Postprocess(softmax=True)):
        found, errors = finishing(spec)(rows, 3)
        assert errors == reason
        assert all(len(values) == 3 for values in found.values())
    assert finishing(Postprocess())((rows[:, 1], rows), 3)[1] == reason


def test_numbers_of_labels_and_classes_that_differ_are_both_told() -> None:
    assert refused(SCORES, labels=("off", "on")) == (
        "postprocess.labels has 2 labels, and the model gives 3 classes:"
        " name each class once, in the order of its scores."
    )
    assert (
        refused(SCORES, top=4) == "postprocess.top is 4, and the model gives 3 classes: set it to 3 at most."
    )


def test_scores_have_to_be_rows_of_numbers() -> None:
    assert "the model gives 2x3x1x1" in refused(SCORES.reshape(2, 3, 1, 1), softmax=True)
    assert "the model gives columns" in refused({"a": [1, 2]}, softmax=True)


def test_an_output_without_a_row_for_each_input_is_refused() -> None:
    assert "gave 2 rows (2x3) for 5 inputs" in refused(SCORES, 5)
    assert "gave a single value for 2 inputs" in refused(np.float32(3))


@pytest.mark.parametrize(
    "given",
    [{"word": ["a", "b"], "size": np.array([1, 2])}, [{"word": "a", "size": 1}, {"word": "b", "size": 2}]],
)
def test_columns_of_a_function_pass_through(given: Any) -> None:
    found = columns(given)
    assert list(found) == ["word", "size"]
    assert [list(values) for values in found.values()] == [["a", "b"], [1, 2]]


def test_a_row_that_lacks_a_column_has_nothing_there() -> None:
    assert columns([{"a": 1}, {"a": 2, "b": 3}]) == {"a": [1, 2], "b": [None, 3]}


def test_columns_of_other_lengths_are_refused() -> None:
    assert refused({"a": [1, 2, 3]}) == "The model gave 3 values in column 'a' for 2 inputs."
    assert refused({"a": "ab"}) == "The model gave no list in column 'a' for 2 inputs."
    assert refused([{"a": 1}]) == "The model gave 1 rows for 2 inputs."
    assert "without names" in refused({1: [1, 2]})


def test_a_list_of_a_function_is_a_value_for_each_input() -> None:
    assert columns(["x", "y"])["value"].tolist() == ["x", "y"]
    assert columns([[1, 2], [3, 4]])["output"].tolist() == [[1, 2], [3, 4]]
    assert "lists of several lengths" in refused([[1], [1, 2]])


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "mine_finishing.py").write_text(
        "def first(scores):\n    return {'first': scores[:, 0]}\n"
        "def rows(scores):\n    return [{'sum': float(row.sum())} for row in scores]\n"
        "def array(scores):\n    return scores\n"
        "def short(scores):\n    return {'first': [1]}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "mine_finishing"


def test_a_function_of_the_users_makes_the_columns(mine: str) -> None:
    assert columns(SCORES, function=f"{mine}:first")["first"].tolist() == [2.0, 0.0]
    assert columns(SCORES, function=f"{mine}:rows") == {"sum": [3.0, 9.0]}
    assert "gave a ndarray: it has to give a dict of columns" in refused(SCORES, function=f"{mine}:array")
    assert "(mine_finishing:short) gave 1 values in column 'first' for 2 inputs" in refused(
        SCORES, function=f"{mine}:short"
    )


def test_nan_is_found_before_a_function_hides_it(mine: str) -> None:
    rows = np.array([[1.0, 2.0], [3.0, float("nan")]])
    found, errors = finishing(Postprocess(function=f"{mine}:first"))(rows, 2)
    assert errors == {1: "the model returned NaN"}
    assert found["first"].tolist() == [1.0, 3.0]
