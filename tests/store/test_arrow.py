"""Arrays that are filled by hand are those that pyarrow makes."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.store.result_files import column

KINDS: dict[Any, st.SearchStrategy[Any]] = {
    pyarrow.bool_(): st.booleans(),
    pyarrow.int64(): st.integers(-(2**63), 2**63 - 1),
    pyarrow.float64(): st.floats() | st.integers(-(2**53), 2**53),
    pyarrow.string(): st.text(st.characters(exclude_categories=["Cs"])),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_a_column_is_what_pyarrow_makes_of_it(kind: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | KINDS[kind], max_size=40))
    made, expected = column(values, kind), pyarrow.array(values, kind)
    made.validate(full=True)
    assert str(made.to_pylist()) == str(expected.to_pylist())  # As text, as not-a-number equals nothing.
    assert made.null_count == expected.null_count
