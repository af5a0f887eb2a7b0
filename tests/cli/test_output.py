"""Values, tables and words as they are printed."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import words
from shoal.cli import output

ROWS = [
    {
        "item": "t0001",
        "state": "done",
        "lr": 0.1,
        "opt": "adam",
        "score": 1.0,
        "seconds": 0.12345,
        "error": None,
    },
    {
        "item": "t0002",
        "state": "failed",
        "lr": 0.25,
        "opt": "adam",
        "score": None,
        "seconds": 2.0,
        "error": "oh\nno",
    },
]
COLUMNS = list(ROWS[0])

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_strict_json_can_be_written_of_anything(value):
    text = json.dumps(output.strict(value), allow_nan=False)
    assert json.loads(text) == output.strict(value)


def test_not_a_number_and_infinity_become_null():
    assert output.strict({"a": [math.nan, math.inf, -math.inf, 1.5], "b": (1, "x")}) == {
        "a": [None, None, None, 1.5],
        "b": [1, "x"],
    }


@given(st.text())
def test_printable_text_is_one_line_that_no_terminal_obeys(text):
    found = words.printable(text)
    assert found.isprintable()
    assert len(found.splitlines()) <= 1


def test_a_table_is_aligned_and_has_no_control_characters():
    assert list(output.lines(COLUMNS, ROWS)) == [
        "item   state     lr  opt   score  seconds  error",
        "t0001  done     0.1  adam      1    0.123",
        "t0002  failed  0.25  adam           2.000  oh\\nno",
    ]


def test_a_long_table_is_not_cut(monkeypatch):
    monkeypatch.setattr(output, "MEASURED", 2)
    rows = [{"item": f"t{number}"} for number in range(5)]
    assert list(output.lines(["item"], rows)) == ["item", "t0", "t1", "t2", "t3", "t4"]


def test_columns_that_say_nothing_are_left_out_at_the_end_of_a_run():
    assert output.telling(COLUMNS, ROWS) == ["item", "state", "lr", "score", "seconds", "error"]
    assert output.telling(COLUMNS, ROWS[:1], ["score"]) == ["item", "state", "lr", "opt", "score", "seconds"]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, COLUMNS),
        (47, ["item", "state", "lr", "score", "seconds", "error"]),
        (10, ["item", "state", "score", "seconds", "error"]),
    ],
)
def test_columns_that_do_not_fit_are_left_out(width, columns):
    assert output.fitting(COLUMNS, ROWS, width, keep=["score"]) == columns


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(25.34, "25.3/s"), (250.0, "250/s"), (0.07, "4.2/min"), (0.001, "3.6/h"), (0.0, "0.0/h")],
)
def test_rates_are_in_units_that_can_be_read(per_second, text):
    assert words.rate(per_second) == text


def test_an_error_is_told_by_its_first_line():
    assert words.sentence("\n  boom \x1b[31m\nsecond") == "boom \\x1b[31m"
    assert words.sentence(None) == "no reason given"
    assert words.sentence("x" * 300, 10) == "xxxxxxx..."
