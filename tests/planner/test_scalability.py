"""What nodes do together: watched over runs, and how long that many inputs take them."""

from __future__ import annotations

import itertools

import pytest

from shoal.planner.scalability import Nodes, Watch, work_s

KIND = "2cpu-8gib"


def watch(earlier, *stretches):
    """A run: for each stretch, so many nodes of a kind (or of several) do so much a second for 20 s."""
    made, now = Watch(earlier), 0.0
    for nodes, rate in stretches:
        for item in range(40):
            made.sent(item, 0, now)
            now += 0.5
            made.tell(now, nodes, rate / 2, item)
    return made.document(KIND)


def near(rate):
    return pytest.approx(rate, rel=0.05)


def test_runs_on_different_numbers_of_nodes_make_a_law_between_them():
    first = watch({}, ({KIND: 1}, 100.0))
    assert (first["nodes"], list(first["by_nodes"])) == (1, ["1"])
    assert Nodes.read(100.0, 2, first).law() is None
    second = watch({KIND: first}, ({KIND: 4}, 200.0))
    assert second["nodes"] == 4
    assert second["by_nodes"] == {"1": near(100.0), "4": near(200.0)}
    known = Nodes.read(50.0, 2, second)  # One of four does half of what one alone did.
    assert known.together(4) == pytest.approx(200.0)
    assert known.together(1) == pytest.approx(100.0, rel=0.05)
    assert 200.0 < known.together(8) < 1.5 * 200.0
    assert known.independent(8) == 400.0


def test_a_later_run_replaces_what_was_known_of_so_many_nodes_and_keeps_the_rest():
    earlier = {KIND: {"nodes": 4, "by_nodes": {"1": 100.0, "4": 200.0}}}
    found = watch(earlier, ({KIND: 1}, 150.0))
    assert found["by_nodes"] == {"1": near(150.0), "4": 200.0}
    assert found["nodes"] == 1


def test_what_nodes_of_several_kinds_do_together_says_nothing_of_one_kind():
    found = watch({}, ({KIND: 1, "8cpu-8gib": 1}, 500.0), ({KIND: 2}, 100.0))
    assert found["by_nodes"] == {"2": near(100.0)}


def test_a_run_without_such_nodes_leaves_what_is_known_of_them():
    earlier = {KIND: {"nodes": 3, "by_nodes": {"3": 9.0}}}
    assert watch(earlier, ({"8cpu-8gib": 1}, 500.0)) == earlier[KIND]


def test_without_a_law_nodes_are_taken_to_be_independent():
    assert Nodes.read(100.0, 2, {}).together(60) == 6000.0


def test_of_items_that_last_only_what_was_done_while_it_was_watched_counts():
    """Three workers do 20 inputs a second each, in items of five seconds or what is left of 20. Each has two items."""
    made, ends = Watch({}), []
    for worker, first in enumerate((5.0, 2.0, 3.5)):
        times = [0.0, first, first + 5.0, first + 10.0, 20.0]
        ends += [(end, worker, 20 * (end - begin)) for begin, end in itertools.pairwise(times)]
    for item, (end, worker, _) in enumerate(sorted(ends)):
        made.sent(item, worker, max(0.0, end - 9.0))
    for item, (end, _, inputs) in enumerate(sorted(ends)):
        made.tell(end, {KIND: 1}, inputs, item)
    assert made.document(KIND)["by_nodes"] == {"1": near(60.0)}


@pytest.mark.parametrize(
    ("inputs", "workers", "item", "seconds"),
    [
        (100_000, 10, None, 1000.0),
        (100, 10, None, 1.0),
        (100, 100, None, 0.3),
        (100, 100_000, None, 0.3),
        (1, 100, None, 0.1),
        (0, 2, None, 0.0),
        (100, 10, 50, 5.0),
        (120, 2, 50, 10.0),
        (20, 2, 50, 2.0),
    ],
    ids=[
        "as the rate says",
        "still so",
        "no more items than workers",
        "more workers do not help",
        "a single input",
        "none",
        "items that somebody chose",
        "one worker has two of three items",
        "fewer inputs than an item may have",
    ],
)
def test_more_workers_help_until_there_are_no_more_items(inputs, workers, item, seconds):
    """Each worker does ten inputs a second."""
    assert work_s(inputs, 10.0 * workers, workers, 0.3, item) == pytest.approx(seconds)
