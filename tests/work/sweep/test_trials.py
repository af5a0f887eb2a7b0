"""Trials boiled down: a sample that no pattern in their order decides, the best so far, what differs, durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.model import Item, Outcome
from shoal.store import RunStore
from shoal.work.sweep.trials import MOST_POINTS, MOST_STEPS, MOST_VALUES, trials

NOW = 1_700_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore.create(
        str(tmp_path / ".shoal"),
        name="some",
        kind="sweep",
        spec_text="",
        document={},
        token=lambda: "0001",
        now=NOW,
        objective=("loss", "min"),
    )
    yield made
    made.close()


def record(store: RunStore, rows: list[tuple[dict[str, Any], float]], seconds: float = 1.0) -> None:
    """Parameters and losses of trials that are done, each begun a second after the one before."""
    journal = store.journal()
    journal.add([Item(seq, f"t{seq:04d}", params) for seq, (params, _) in enumerate(rows, 1)])
    for seq, (_, loss) in enumerate(rows, 1):
        node = f"node{seq % 2}"
        journal.ended(seq, 1, 1, node, NOW + seq, Outcome("done", {"loss": loss}, None, seconds * seq))
    journal.commit()


@pytest.mark.parametrize("period", [2, 5, 8])
def test_of_many_trials_every_value_of_a_grid_is_drawn_alike(store: RunStore, period: int) -> None:
    record(store, [({"x": number % period}, 1.0) for number in range(8000)])
    found = trials(store, NOW)
    assert (len(found.points), found.measured) == (MOST_POINTS, 8000)
    counts = Counter(trial.params["x"] for trial in found.points)
    assert len(counts) == period
    assert min(counts.values()) > 0.6 * MOST_POINTS / period
    late = sum(int(trial.item[1:]) > 4000 for trial in found.points)
    assert 0.4 < late / MOST_POINTS < 0.6
    assert found.points == trials(store, NOW).points, "the same ones each time"


def test_the_best_so_far_only_gets_better_in_the_order_of_time(store: RunStore) -> None:
    record(store, [({"x": number}, loss) for number, loss in enumerate([5.0, 7.0, 3.0, 3.0, 4.0, 1.0])])
    assert trials(store, NOW).leading == [(2.0, 5.0), (6.0, 3.0), (12.0, 1.0)]


def test_a_best_that_gets_better_all_the_time_has_a_bounded_line(store: RunStore) -> None:
    record(store, [({"x": number}, -float(number)) for number in range(3000)])
    found = trials(store, NOW).leading
    assert len(found) <= MOST_STEPS + 1
    assert found[-1][1] == -2999


def test_parameters_that_differ_are_numbers_or_words(store: RunStore) -> None:
    record(
        store,
        [
            (
                {
                    "same": 1,
                    "lr": 0.1 * number,
                    "opt": ["adam", None][number % 2],
                    "mixed": [1, "two"][number % 2],
                    "name": f"name-{number}",
                },
                1.0,
            )
            for number in range(MOST_VALUES + 5)
        ],
    )
    found = trials(store, NOW)
    assert [tuple(each) for each in found.parameters] == [
        ("lr", None),
        ("opt", ("adam", "none")),
        ("mixed", ("1", "two")),
    ]
    assert found.left_out == ["name"]


def test_durations_are_told_by_node(store: RunStore) -> None:
    record(store, [({"x": number}, 1.0) for number in range(9)])
    odd, even = trials(store, NOW).nodes
    assert tuple(odd) == ("node1", 5, 1.0, 3.0, 5.0, 7.0, 9.0, 25.0)
    assert (even.node, even.trials, even.total_s) == ("node0", 4, 20.0)


def test_what_cannot_be_compared_is_not_drawn(store: RunStore) -> None:
    record(store, [({"x": 1}, float("nan")), ({"x": 2}, float("inf")), ({"x": 3}, 2.0)])
    found = trials(store, NOW)
    assert [trial.item for trial in found.points] == ["t0003"]
    assert found.rows[0]["item"] == "t0003"


def test_a_parameter_that_differs_is_a_column_though_all_the_best_have_the_same(store: RunStore) -> None:
    record(
        store, [({"opt": "adam" if number < 30 else "sgd", "same": 1}, float(number)) for number in range(40)]
    )
    found = trials(store, NOW)
    assert {row["opt"] for row in found.rows} == {"adam"}
    assert "opt" in found.columns
    assert "same" not in found.columns
