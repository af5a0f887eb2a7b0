"""Reading a saved plan back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.api.saved_plan import read
from shoal.errors import SpecError
from shoal.model import Decision, ItemPlacement, MadeFor, Plan, Prediction

PLAN = Plan(
    "sweep",
    "naps",
    8,
    3,
    Prediction(1.0, 2.0, 3.0),
    (Decision("workers", 3, "three fit"),),
    (ItemPlacement("t0001", "node0", "it is free"),),
    {"node0": 1, "node1": 2},
    {"tune.batch": None},
    MadeFor({"file": "12ab", "sets": [], "limit": None}, "34cd", {"node0": {"cpu": 1.0}}),
)


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN.document()))
    assert read(str(path)) == PLAN


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param("kind: sweep", "is no JSON", id="no JSON"),
        pytest.param("[]", "no plan that can be followed", id="no plan"),
        pytest.param("{}", "'workers_by_node' is missing", id="nothing in it"),
        pytest.param({"workers_by_node": {"node0": -1}}, "node0: expected a whole number", id="a count"),
        pytest.param({"workers_by_node": {"node0": 0}}, "there is no worker on any node", id="no worker"),
        pytest.param({"made_for": None}, "does not tell what it was made for", id="that of a run"),
        pytest.param({"decisions": 7}, "not iterable", id="another shape"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(
    tmp_path: Path, text: str | dict[str, Any] | None, words: str
) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text if isinstance(text, str) else json.dumps(PLAN.document() | text))
    with pytest.raises(SpecError, match=words) as caught:
        read(str(path))
    assert "shoal plan FILE --json" in str(caught.value.hint)
