"""The search asks and is told; Optuna's parts do the work."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from shoal.errors import SpecError
from shoal.planner.search import Range, Search

SPACE = {
    "x": Range("float", -5.0, 5.0),
    "rate": Range("log", 1e-5, 1e-1),
    "layers": Range("int", 1, 4),
    "kind": Range("choice", choices=["a", "b", True, 3]),
}


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_trial_lies_within_the_space(sampler: str) -> None:
    search = Search(SPACE, sampler=sampler, seed=1)
    for _ in range(30):
        number, params = search.ask()
        assert -5 <= params["x"] <= 5
        assert 1e-5 <= params["rate"] <= 1e-1
        assert params["layers"] in (1, 2, 3, 4)
        assert params["kind"] in ("a", "b", True, 3)
        search.tell(number, -(params["x"] ** 2))


def test_a_search_learns_while_many_trials_are_in_flight() -> None:
    search = Search({"x": Range("float", -5.0, 5.0)}, goal="min", sampler="tpe", seed=3)
    flying: list[tuple[int, float]] = []
    tried = []
    for _ in range(80):
        number, params = search.ask()
        flying.append((number, params["x"]))
        tried.append(params["x"])
        if len(flying) == 6:
            done, x = flying.pop(0)
            search.tell(done, (x - 2) ** 2)
    late = [abs(x - 2) for x in tried[-20:]]
    assert sorted(late)[10] < 1.0


def test_the_grid_sampler_visits_every_point_once() -> None:
    space = {"layers": Range("int", 1, 3), "kind": Range("choice", choices=["a", "b"])}
    search = Search(space, sampler="grid", seed=0)
    seen = set()
    for _ in range(6):
        number, params = search.ask()
        seen.add((params["layers"], params["kind"]))
        search.tell(number, 1.0)
    assert len(seen) == 6


def test_the_grid_sampler_refuses_what_cannot_be_counted() -> None:
    with pytest.raises(SpecError, match="sampler grid needs values that can be counted"):
        Search({"x": Range("float", 0, 1)}, sampler="grid")


@pytest.mark.parametrize("pruner", ["asha", "median"])
def test_a_trial_that_falls_behind_is_pruned_and_a_good_one_is_not(pruner: str) -> None:
    search = Search({"x": Range("float", 0.0, 1.0)}, goal="max", sampler="random", pruner=pruner, seed=1)
    for _ in range(8):
        number, _ = search.ask()
        for step in range(1, 9):
            if search.report(number, step, step * 0.1):
                break
        search.tell(number, 0.8)
    bad, _ = search.ask()
    assert any(search.report(bad, step, -1.0) for step in range(1, 9))
    search.tell(bad, None, pruned=True)
    good, _ = search.ask()
    assert not any(search.report(good, step, step * 10.0) for step in range(1, 9))


def test_values_that_are_no_numbers_teach_nothing_and_break_nothing() -> None:
    search = Search(SPACE, seed=1)
    for value in (math.nan, math.inf, None):
        number, _ = search.ask()
        assert search.report(number, 1, math.nan) is False
        search.tell(number, value)
    search.tell(999, 1.0)


def test_what_an_earlier_session_learned_is_used() -> None:
    search = Search({"x": Range("float", -5.0, 5.0)}, goal="min", seed=2)
    for step in range(40):
        x = -5 + step / 4
        search.tell(search.ask_again({"x": x}), (x - 2) ** 2)
    close = sum(abs(search.ask()[1]["x"] - 2) < 1.5 for _ in range(20))
    assert close >= 10


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_sampler_with_a_seed_goes_on_with_what_it_would_have_drawn_next(sampler: str) -> None:
    whole = Search(SPACE, sampler=sampler, seed=5)
    drawn = [whole.ask()[1] for _ in range(9)]
    later = Search(SPACE, sampler=sampler, seed=5)
    for params in drawn[:4]:
        later.ask_again(params)
    assert [later.ask()[1] for _ in range(5)] == drawn[4:]


def test_a_trial_that_was_to_be_pruned_when_its_session_ended_is_pruned_at_its_next_report() -> None:
    search = Search({"x": Range("float", 0.0, 1.0)}, pruner="asha", seed=1)
    for quality in (1.0, 0.5):
        number = search.ask_again({"x": quality})
        search.report_again(number, [(1, quality), (2, quality)] if quality == 1.0 else [(1, quality)])
    assert search.report(0, 3, 1.0) is False
    assert search.report(1, 1, 0.5) is True


def test_asking_says_nothing_on_standard_error() -> None:
    program = (
        "from shoal.planner.search import Range, Search\n"
        "s = Search({'x': Range('float', 0, 1)}, pruner='asha')\n"
        "n, _ = s.ask(); s.report(n, 1, 0.5); s.tell(n, 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_asha_keeps_the_best_of_many_trials_in_flight() -> None:
    """Eight curves side by side; the one that leads at every step must never be pruned."""
    search = Search({"x": Range("float", 0.0, 1.0)}, goal="max", sampler="random", pruner="asha", seed=1)
    pruned = 0
    for _ in range(4):
        flying = {search.ask()[0]: quality for quality in range(8)}
        best = max(flying, key=lambda number: flying[number])
        for step in range(1, 20):
            for number in list(flying):
                if search.report(number, step, flying[number] + step * 0.1):
                    assert number != best
                    search.tell(number, None, pruned=True)
                    del flying[number]
                    pruned += 1
        for number, quality in flying.items():
            search.tell(number, quality + 2.0)
    assert pruned >= 16, "most of the others are behind"
