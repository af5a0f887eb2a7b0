"""How the tuner arranges the workers of nodes: several of a kind, workers that are missing, and workers that die."""

from __future__ import annotations

from typing import Any

import pytest

from planner.simulated import GIB, Node, measured, resnet
from shoal.model.advice import Heard, Machine, Space
from shoal.planner.tuner.tuner import Tuner


def test_nodes_of_a_kind_share_what_they_find_out_about_arrangements() -> None:
    surface = resnet({"as-given": 10.0}, {"as-given": 0.5}, threading=1.2)
    tuner = Tuner(surface.space())
    together = surface.space().machine.cpu
    for _ in range(40):  # Ten nodes, whose workers take turns.
        for worker in range(10 * together):
            if worker % together < tuner.active(together):
                advice = tuner.ask(worker, tuner.rows_for(5.0), 10**6)
                setting = advice.steps[-1].setting
                rate = surface.each(setting, advice.workers)[0]
                tuner.tell(worker, Heard((measured(setting, rate, advice.workers),)))
    assert tuner.chosen()[1] == 1
    assert tuner.chosen()[0].threads == 2


def test_a_worker_is_told_how_many_are_at_work_on_its_own_node() -> None:
    tuner = Tuner(Space(("as-given",), Machine(4, 8 * GIB)))
    assert [tuner.active(4, "large"), tuner.active(1, "small")] == [4, 1]
    assert tuner.ask(0, 8, 1000, active=4).workers == 4
    assert tuner.ask(4, 8, 1000, active=1).workers == 1
    assert tuner.ask(1, 8, 1000, active=4).workers == 4


def test_a_node_with_few_workers_does_not_keep_the_others_of_its_kind_from_a_trial() -> None:
    assert 2 in threads_tried(
        Tuner(Space(("as-given",), Machine(2, 8 * GIB))), alive={"large": 2, "small": 1}
    )


def test_a_dead_worker_that_is_heard_of_late_is_not_waited_for() -> None:
    tuner = Tuner(Space(("as-given",), Machine(2, 8 * GIB)))
    tuner.ask(-1, 8, 10**6)
    tuner.lost(-1)
    tuner.tell(-1, Heard())
    assert 2 in threads_tried(tuner, alive={"large": 2})


def threads_tried(tuner: Tuner, alive: dict[str, int]) -> set[int]:
    """The threads that were advised, by a tuner whose nodes have so many workers, which take turns."""
    tried = set()
    for _ in range(40):
        for place, (host, count) in enumerate(alive.items()):
            for worker in range(count):
                active = {each: tuner.active(there, each) for each, there in alive.items()}[host]
                if worker < active:
                    number = 100 * place + worker
                    advice = tuner.ask(number, tuner.rows_for(5.0), 10**6, active)
                    setting = advice.steps[-1].setting
                    tried.add(setting.threads)
                    rate = 10.0 * 1.2 * setting.threads / 2
                    tuner.tell(number, Heard((measured(setting, rate, advice.workers),)))
    return tried


@pytest.mark.parametrize(("alive", "best"), [(1, (1, 8)), (2, (2, 4)), (3, (2, 4))])
def test_few_workers_share_all_of_the_cores(alive: int, best: tuple[int, int]) -> None:
    tuner = of_few(alive).tuner
    setting, workers = tuner.chosen()
    assert (workers, setting.threads) == best
    why = {each.name: each.why for each in tuner.decisions()}["threads"]
    assert f"{alive} x 1 thread: " in why  # What was measured before: there were no more workers.
    are = "worker is" if alive == 1 else "workers are"
    assert f"8 x 1 thread was not tried: only {alive} {are} there" in why


def test_a_short_run_does_not_leave_most_cores_idle_for_want_of_workers() -> None:
    surface = FEW._replace(load_s={"as-given": 10.0})  # With other threads, a part of that comes again.
    node = Node(surface, Tuner(surface.space()), 0, workers=1)
    node.run(300)
    assert node.tuner.chosen()[0].threads == 8


def test_what_was_settled_with_few_workers_is_looked_at_again_when_more_come() -> None:
    document = of_few(1).tuner.document()
    assert document["settled"]
    assert Node(FEW, Tuner(FEW.space(), document), 1, workers=1).tuner.settled()
    later = of_few(8, known=document, rows=12_000).tuner
    assert later.chosen()[1] == 8
    assert later.settled()


def test_what_was_settled_with_many_workers_is_looked_at_again_when_most_stay_away() -> None:
    document = of_few(8).tuner.document()
    assert document["settled"]
    later = of_few(1, known=document).tuner
    assert later.chosen()[0].threads == 8
    assert later.settled()


def test_a_run_that_ended_early_has_not_settled_things_for_the_next_one() -> None:
    document = of_few(8, rows=300).tuner.document() | {"settled": False}
    tuner = Tuner(FEW.space(), document)
    tuner.active(8)
    tuner.ask(0, 100, 10_000)
    assert not tuner.settled()


FEW = resnet({"as-given": 10.0}, {"as-given": 0.5}, cpu=8, memory_bytes=64 * GIB)


def of_few(workers: int, *, known: dict[str, Any] | None = None, rows: int = 6000) -> Node:
    """Eight cores after a run that had so many workers."""
    node = Node(FEW, Tuner(FEW.space(), known), 0, workers=workers)
    node.run(rows)
    return node
