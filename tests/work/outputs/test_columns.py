"""Values of people and models become columns of stable types; what has no place in a table is told in a sentence."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.workers.runner import Failed
from shoal.work.outputs.columns import arrow, conform

FLOATS = np.array([0.5, 1.5], np.float32)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["on", "off", None], "string"),
        ([1, None, 3], "int64"),
        ([1, 2.5], "double"),
        ([True, None], "bool"),
        ([b"a", None], "binary"),
        ([None, None], "null"),
        ([], "null"),
        ([["a", "b"], [], None, ["c"]], "list<item: string>"),
        ([[0.5, 1], (2,)], "list<item: double>"),
        ([[[1], []], []], "list<item: list<item: int64>>"),
        ([[], []], "list<item: null>"),
        ([np.float32(0.5), None], "double"),
        ([np.str_("a"), "b"], "string"),
        (FLOATS, "float"),
        (FLOATS.astype(np.float16), "float"),
        (FLOATS.astype(">f8"), "double"),
        (np.array([1, 2]), "int64"),
        (np.array([1, 2], np.uint8), "uint8"),
        (np.arange(20) % 3 == 0, "bool"),
        (np.array(["a", "bc"]), "string"),
        (np.array(["a", None], object), "string"),
        (np.arange(12, dtype=np.float32).reshape(2, 3, 2), "list<item: list<item: float>>"),
        (np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2], "list<item: float>"),
        (np.zeros((2, 0), np.float32), "list<item: float>"),
        (np.zeros((3, 0, 2), np.int32), "list<item: list<item: int32>>"),
        ([np.array([1.0, 2.0]), np.array([3.0])], "list<item: double>"),
        ([np.ones((2, 2), np.float32)] * 3, "list<item: list<item: float>>"),
        ([datetime.date(2024, 1, 2), None], "date32[day]"),
    ],
    ids=str,
)
def test_values_keep_their_meaning(values: Any, kind: str) -> None:
    array = arrow("x", values)
    array.validate(full=True)
    assert str(array.type) == kind
    plain = values.tolist() if isinstance(values, np.ndarray) else [_plain(value) for value in values]
    assert array.to_pylist() == plain


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    "values",
    [["a", 1], [True, 2], [2**70], [object()], np.zeros(2, complex), np.float32(1.0), [[1], "a"]],
    ids=["text and number", "bool and number", "large", "object", "complex", "no list", "list and text"],
)
def test_what_has_no_place_in_a_table_is_told_with_the_column(values: Any) -> None:
    with pytest.raises(Failed, match="The column 'score' cannot be written: "):
        arrow("score", values)


def test_a_name_that_is_no_text_is_escaped() -> None:
    odd = b"b\xffd.jpg".decode("utf-8", "surrogateescape")
    assert arrow("path", ["ü", odd]).to_pylist() == ["ü", "b\\udcffd.jpg"]


@given(
    st.lists(
        st.none() | st.lists(st.none() | st.floats(allow_nan=False) | st.integers(-(2**50), 2**50)),
        max_size=9,
    )
)
def test_lists_are_what_pyarrow_makes_of_them(values: list[Any]) -> None:
    assert arrow("x", values).to_pylist() == pyarrow.array(values).to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], pyarrow.float32(), [1.0, 2.0]),
        ([1.0, None], pyarrow.int64(), [1, None]),
        ([None], pyarrow.list_(pyarrow.string()), [None]),
        ([[], None], pyarrow.list_(pyarrow.string()), [[], None]),
        ([[1], [2]], pyarrow.list_(pyarrow.float64()), [[1.0], [2.0]]),
        ([[], None, [None]], pyarrow.list_(pyarrow.float64()), [[], None, [None]]),
        (
            [{"a": [], "b": 1}, None],
            pyarrow.struct([("a", pyarrow.list_(pyarrow.int64())), ("b", "double")]),
            [{"a": [], "b": 1.0}, None],
        ),
        ([{"a": 1, "b": None}], pyarrow.struct([("a", "double"), ("b", "string")]), [{"a": 1.0, "b": None}]),
    ],
)
def test_values_take_the_type_that_was_agreed_on(values: Any, kind: Any, expected: Any) -> None:
    made = conform("x", arrow("x", values), kind)
    assert made.type == kind
    assert made.to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5], pyarrow.int64()),
        ([1], pyarrow.string()),
        (["1"], pyarrow.int64()),
        ([True], pyarrow.int64()),
        ([["a"]], pyarrow.string()),
        ([2**60 + 1], pyarrow.float64()),
    ],
)
def test_values_that_would_not_stay_the_same_are_refused(values: Any, kind: Any) -> None:
    with pytest.raises(Failed, match=r"The column 'score' holds .* here and .* in parts"):
        conform("score", arrow("score", values), kind)


def test_a_column_that_held_no_value_takes_any_type() -> None:
    """Where nothing was known at the end of a session, parts have text."""
    empty = pyarrow.array([[], None, [None]], pyarrow.list_(pyarrow.string()))
    made = conform("x", empty.slice(1), pyarrow.list_(pyarrow.int64()))
    assert made.to_pylist() == [None, [None]]
    assert conform("x", pyarrow.nulls(2, pyarrow.string()), pyarrow.bool_()).to_pylist() == [None, None]
    filled = pyarrow.array([["a"], None, ["b", "c"]])
    as_integers = pyarrow.list_(pyarrow.int64())
    with pytest.raises(Failed):
        conform("x", filled, as_integers)
    numbers = pyarrow.array([[9], None, [1, 2], [3]], pyarrow.list_(pyarrow.int32()))
    assert conform("x", numbers.slice(1, 2), as_integers).to_pylist() == [None, [1, 2]]


def test_numbers_text_and_lists_are_written_without_pandas(tmp_path: Any) -> None:
    program = """
import sys
import numpy
from shoal.spec.infer import Output
from shoal.work.protocols import Facts
from shoal.work.outputs import PartWriter, claim, document_of, finish
output = Output(path=sys.argv[1])
claim(output, ".", "a-1", "home", is_alive=lambda *_: False)
writer = PartWriter(output, ".", "a-1")
columns = {"label": ["on"], "prob": numpy.ones(1, numpy.float32), "top": [["a", "b"]], "none": [None]}
facts = [
    writer.write(0, 1, "c", {}, {}, [({"path": "y"}, "bad")], Facts(0, 0)),
    writer.write(1, 1, "c", {"path": ["x"]}, columns, [({"path": "y"}, "bad")], Facts(0, 0)),
]
finish(output, ".", "a-1", [(seq, document_of(each)) for seq, each in enumerate(facts)])
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=True, timeout=60)
