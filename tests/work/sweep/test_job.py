"""From a sweep's file to a job: what is checked, which items there are, what the plan says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import spec as specs
from shoal.errors import SpecError
from shoal.model import Node
from shoal.model.plan import Profile
from shoal.spec import Cell
from shoal.work.job import Past
from shoal.work.sweep.job import SweepJob, prepare
from shoal.work.sweep.trial_rows import Rows, RowSource, content_of

NODES = [Node("a", 2, 1 << 30)]


def job(folder: Path, limit: int | None = None, **keys: Any) -> SweepJob:
    document = {
        "kind": "sweep",
        "name": "x",
        "trials": {"grid": {"a": [1, 2]}},
        "run": {"command": "echo {a}"},
    }
    spec = specs.parse({**document, **keys}, folder=str(folder))
    assert isinstance(spec, specs.Sweep)
    return prepare(spec, limit=limit)


def taken(source: Any) -> list[Any]:
    items = []
    while not source.finished():
        items += source.take(10, 10)
    return items


class Listed(Rows):
    def __init__(self, rows: list[tuple[str, ...]], repeat: int = 1) -> None:
        super().__init__([f"c{index}" for index in range(len(rows[0]))], repeat, len(rows))
        self.listed = rows

    def once(self) -> Any:
        return iter([tuple(Cell.of(value) for value in row) for row in self.listed])


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=12)


@given(ROWS, ROWS, st.integers(1, 3))
def test_after_rows_were_added_a_resume_gives_exactly_the_new_ones(
    before: list[tuple[str, ...]], added: list[tuple[str, ...]], repeat: int
) -> None:
    first = taken(RowSource(Listed(before, repeat), Past(), None))
    assert len(first) == len(before) * repeat
    known = Counter(item.content for item in first)
    later = RowSource(Listed(added + before, repeat), Past(len(first) + 1, known), None)
    new = taken(later)
    assert Counter(tuple(item.params.values()) for item in new) == Counter(added * repeat)
    everything = first + new
    assert len({(item.content, item.occurrence) for item in everything}) == len(everything)
    assert [item.seq for item in everything] == list(range(1, len(everything) + 1))


@given(ROWS)
def test_a_limit_takes_the_first_and_a_resume_takes_no_more(rows: list[tuple[str, ...]]) -> None:
    first = taken(RowSource(Listed(rows), Past(), 3))
    assert [tuple(item.params.values()) for item in first] == rows[:3]
    known = Counter(item.content for item in first)
    assert taken(RowSource(Listed(rows), Past(len(first) + 1, known), 3)) == []


def test_equal_rows_have_equal_content_whatever_the_order_of_the_columns() -> None:
    row = (Cell.of(1), Cell.of("x"))
    assert content_of(("a", "b"), row) == content_of(("b", "a"), row[::-1])
    assert content_of(("a", "b"), row) != content_of(("b", "a"), row)
    assert content_of(("a",), (Cell(7, "007"),)) != content_of(("a",), (Cell(7, "7"),))


def test_repeat_gives_every_trial_once_before_any_twice(tmp_path: Path) -> None:
    items = taken(job(tmp_path, trials={"grid": {"a": [1, 2]}, "repeat": 2}).trials(Past()))
    assert [item.params["a"] for item in items] == [1, 2, 1, 2]
    assert [item.occurrence for item in items] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"run": {"command": "echo {b}"}}, "there is no column 'b'"),
        ({"run": {"command": "python nope.py {a}"}}, "there is no file nope.py"),
        ({"run": {"function": "nope:main"}}, "there is no module 'nope'"),
        ({"run": {"function": "mine:missing"}}, "mine.py has no function 'missing'"),
        ({"run": {"function": "mine:other"}}, "takes no argument 'a'"),
        ({"run": {"function": "mine:more"}}, "needs an argument 'b'"),
        ({"run": {"function": "broken:main"}}, "broken.py:1"),
        ({"trials": {"table": "nope.csv"}}, "nope.csv"),
        ({"image": "python:3.12"}, "image: not possible yet"),
        ({"requirements": "nope.txt"}, "requirements: there is no file"),
    ],
    ids=[
        "column",
        "script",
        "module",
        "function",
        "argument",
        "missing argument",
        "syntax",
        "table",
        "image",
        "requirements",
    ],
)
def test_what_can_be_known_to_be_wrong_is_said_before_anything_starts(
    tmp_path: Path, keys: dict[str, Any], words: str
) -> None:
    (tmp_path / "mine.py").write_text("def main(a): pass\ndef other(x=1): pass\ndef more(a, b): pass\n")
    (tmp_path / "broken.py").write_text("def main(:\n")
    with pytest.raises(SpecError) as error:
        job(tmp_path, **keys)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "code",
    [
        "def f(a): pass",
        "def f(**k): pass",
        "f = make()",
        "from x import f",
        "from x import *",
        "@wrap\ndef f(z): pass",
    ],
)
def test_a_function_that_may_be_right_is_not_refused(tmp_path: Path, code: str) -> None:
    (tmp_path / "mine.py").write_text(code + "\n")
    job(tmp_path, run={"function": "mine:f"})


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="2 problems"):
        job(tmp_path, run={"command": "python nope.py {b}"})


def profile(**seconds: float) -> Profile:
    return Profile("f", "machine", len(seconds), sum(seconds.values()) / len(seconds), 0.0, 0.1, seconds)


def test_a_plan_says_what_it_decided_and_why_and_predicts_nothing_it_does_not_know(tmp_path: Path) -> None:
    plan = job(tmp_path).plan(NODES, None)
    assert plan.workers == 2
    assert plan.predicted_seconds is None
    assert [(decision.name, decision.choice) for decision in plan.decisions] == [
        ("workers", 2),
        ("order", "as given, then longest first"),
        ("chunk", 1),
        ("prediction", None),
    ]
    assert plan.decisions[0].why == "a with 2 CPU in all hold 2 workers of 1 CPU"
    assert "has not been run here before" in plan.decisions[3].why


def test_a_plan_predicts_from_what_was_measured(tmp_path: Path) -> None:
    made = job(tmp_path, trials={"grid": {"a": [1, 2, 3]}})
    contents = [content_of(("a",), (Cell.of(value),)) for value in (1, 2, 3)]
    plan = made.plan(NODES, profile(**dict(zip(contents, (10.0, 10.0, 20.0), strict=True))))
    assert plan.predicted_seconds is not None
    assert plan.predicted_seconds.mid == pytest.approx(20.1)
    assert [placement.item for placement in plan.placements] == ["t0001", "t0002", "t0003"]
