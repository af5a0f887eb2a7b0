"""A search as a source of items: how many it gives, what it learns from, and what it knows after a resume."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shoal import spec as specs
from shoal.model import Item, Outcome
from shoal.work.job import Past, Recorded
from shoal.work.sweep.job import SweepJob, prepare

STEPS = 16


def search(folder: Path, **trials: Any) -> SweepJob:
    document = {
        "kind": "sweep",
        "name": "x",
        "trials": {"search": {"a": {"float": [0, 1]}}, "seed": 1, **trials},
        "run": {"command": "echo {a}"},
        "objective": {"metric": "score", "goal": "max"},
    }
    spec = specs.parse(document, folder=str(folder))
    assert isinstance(spec, specs.Sweep)
    return prepare(spec)


def past(recorded: list[Recorded]) -> Past:
    contents = Counter(entry.item.content for entry in recorded)
    return Past(max((entry.item.seq for entry in recorded), default=0) + 1, contents, iter(recorded))


def score(item: Item, step: int) -> float:
    """What a trial has at its end says nothing of what it had at a step."""
    return float(item.params["a"]) / step


class Worker:
    """Does one item after the other, reports its curve, and keeps what a store would; until it is stopped."""

    def __init__(self, job: SweepJob, recorded: dict[int, Recorded]) -> None:
        self.recorded = recorded
        self.source = job.trials(past(list(recorded.values())))

    def work(self, until: tuple[int, int] = (1 << 30, 0)) -> None:
        """Until so many items have begun, the last of them with so many reports."""
        while True:
            waiting = [entry.item for entry in self.recorded.values() if entry.outcome is None]
            if not waiting:
                waiting = [*self.source.take(1, 1)]
                self.recorded.update((item.seq, Recorded(item)) for item in waiting)
            if not waiting:
                return
            last = sum(entry.outcome is not None for entry in self.recorded.values()) + 1 >= until[0]
            self.do(waiting[0], until[1] if last else STEPS)
            if last:
                return

    def do(self, item: Item, steps: int) -> None:
        for step in range(1, steps + 1):
            metrics = {"score": score(item, step)}
            known = self.recorded[item.seq]
            self.recorded[item.seq] = known._replace(reports=[*known.reports, (step, metrics)])
            if self.source.progressed(item, metrics, step) is not None:
                self.end(item, Outcome("pruned", metrics))
                return
        if steps == STEPS:
            self.end(item, Outcome("done", {"score": score(item, STEPS)}))

    def end(self, item: Item, outcome: Outcome) -> None:
        self.recorded[item.seq] = self.recorded[item.seq]._replace(outcome=outcome)
        self.source.ended(item, outcome)


def ends(recorded: dict[int, Recorded]) -> list[tuple[Any, str]]:
    return [(entry.item.params["a"], entry.outcome.state) for entry in recorded.values() if entry.outcome]


def study(source: Any) -> list[tuple[Any, ...]]:
    """What Optuna has been told, in its order."""
    trials = source._search._study.trials
    return [(each.number, each.state, each.params, each.value, each.intermediate_values) for each in trials]


def test_what_had_not_ended_competes_with_all_that_had(tmp_path: Path) -> None:
    job = search(tmp_path, count=9, sampler="random", pruner="asha")
    first, second = job.trials(Past()).take(2, 2)
    source = job.trials(
        past(
            [
                Recorded(first, None, [(1, {"score": 0.1})]),
                Recorded(second, Outcome("done", {"score": 0.9}), [(1, {"score": 0.9})]),
            ]
        )
    )
    assert "is behind other trials" in str(source.progressed(first, {"score": 0.1}, 2))


@pytest.mark.parametrize("pruner", ["asha", "median"])
@pytest.mark.parametrize("stop", [(8, 0), (8, 1), (15, 5), (29, 2)], ids=str)
def test_a_search_that_was_stopped_ends_as_if_it_had_not_been(
    tmp_path: Path, pruner: str, stop: tuple[int, int]
) -> None:
    job = search(tmp_path, count=30, sampler="random", pruner=pruner)
    whole: dict[int, Recorded] = {}
    unstopped = Worker(job, whole)
    unstopped.work()
    parts: dict[int, Recorded] = {}
    Worker(job, parts).work(stop)
    assert 0 < len(ends(parts)) < 30
    resumed = Worker(job, parts)
    resumed.work()
    assert ends(parts) == ends(whole)
    assert study(resumed.source) == study(unstopped.source)
    told = {"done": "COMPLETE", "pruned": "PRUNED"}
    assert [entry[1].name for entry in study(resumed.source)] == [told[state] for _, state in ends(whole)]
    assert Counter(state for _, state in ends(whole))["pruned"] > 5


def test_a_search_stops_at_its_count_whatever_numbers_were_left_out(tmp_path: Path) -> None:
    job = search(tmp_path, count=5)
    first = [*job.trials(Past()).take(2, 2)]
    recorded = [Recorded(item, Outcome("done", {"score": 1.0})) for item in first]
    later = job.trials(past(recorded)._replace(next_seq=8))
    assert [item.seq for item in later.take(9, 9)] == [8, 9, 10]
    assert later.finished()


def test_repeats_are_told_apart_and_their_mean_is_told_once_all_have_ended(tmp_path: Path) -> None:
    job = search(tmp_path, search={"a": {"int": [0, 1]}}, count=4, repeat=3, sampler="random")
    items = [*job.trials(Past()).take(99, 9)]
    assert len({(item.content, item.occurrence) for item in items}) == 12
    assert all(len({item.content for item in items[at : at + 3]}) == 1 for at in (0, 3, 6, 9))


def test_a_point_of_which_one_repeat_had_ended_goes_on_with_the_mean_of_all(tmp_path: Path) -> None:
    job = search(tmp_path, count=4, repeat=3, sampler="random")
    items = [*job.trials(Past()).take(3, 3)]
    recorded = [Recorded(item) for item in items]
    recorded[0] = Recorded(items[0], Outcome("done", {"score": 1.0}))
    source: Any = job.trials(past(recorded))
    for item in items[1:]:
        source.ended(item, Outcome("done", {"score": 4.0}))
    assert [value for *_, value, _ in study(source)] == [3.0]
    assert [item.occurrence for item in source.take(3, 3)] == [0, 1, 2]


def test_an_objective_that_no_float_can_hold_teaches_nothing(tmp_path: Path) -> None:
    job = search(tmp_path, count=3)
    source = job.trials(Past())
    [item] = source.take(1, 1)
    assert source.progressed(item, {"score": 10**400}, 1) is None
    source.ended(item, Outcome("done", {"score": 10**400}))
    job.trials(past([Recorded(item, Outcome("done", {"score": 10**400}))])).take(1, 1)


def test_a_search_that_learns_does_not_run_far_ahead_of_what_it_knows(tmp_path: Path) -> None:
    source = search(tmp_path, count=100).trials(Past())
    items = [*source.take(50, 3)]
    assert len(items) == 6
    assert source.take(50, 3) == []
    source.ended(items[0], Outcome("done", {"score": 1.0}))
    assert len(source.take(50, 3)) == 1
