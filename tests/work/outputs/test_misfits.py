"""Which rows of a model's output do not go with the others."""

from __future__ import annotations

from typing import Any

from shoal.work.outputs.misfits import odd_outputs


def test_an_odd_value_in_a_field_that_most_rows_lack_is_odd_alone() -> None:
    values: list[Any] = [*({"a": 1} for _ in range(50)), *({"a": 1, "n": 1} for _ in range(10))]
    found = odd_outputs({"answer": [*values, {"a": 1, "n": "N/A"}]}, None)
    assert list(found) == [60]
    assert "N/A" in found[60]


def test_a_value_that_no_text_can_show_is_told_by_its_type() -> None:
    found = odd_outputs({"answer": [1, 2, {(1, 2): 3}]}, None)
    assert list(found) == [2]
    assert "a dict" in found[2]
