"""How long a pool waits for workers and nodes, on virtual time; which answers are stale; what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shape.test_pool import Bench, by_params, items
from shoal.engine.sim import Duplicate, NodeDies, SimWorld, Startup
from shoal.errors import CannotPlace
from shoal.model import Node
from shoal.shape.base import Policy

ONE = (Node("a", 1, 1 << 30),)
BAD = Startup(0.01, error="ZeroDivisionError: division by zero")


def world(startups: Iterator[Startup], nodes: tuple[Node, ...] = ONE) -> SimWorld:
    return SimWorld(nodes, by_params, startup=lambda _: next(startups), limit_s=1e5, record=True)


def test_failed_starts_are_counted_anew_when_an_item_has_started() -> None:
    work = items(0.1, crash=True)
    startups = iter([BAD, BAD, BAD, BAD, Startup(0.01)] * 3)
    bench = Bench(work, Policy(retries=2), world=world(startups))
    assert bench.run()[1].item.used == 3
    assert next(startups, None) is None, "there were twelve bad starts, and never five in a row"


def test_a_worker_that_hangs_at_its_start_is_killed_after_ten_minutes_and_another_is_started() -> None:
    bench = Bench(items(1.0), world=world(iter([Startup(1e9), Startup(0.01)])))
    bench.run()
    assert 600 < bench.durable_at[1] < 610


def test_a_run_that_lost_all_its_nodes_waits_five_minutes_for_one_and_then_gives_up() -> None:
    bench = Bench(items(*[1.0] * 6), nodes=ONE, faults=[NodeDies(1.5, "a", back_after=290)])
    assert {record.state for record in bench.run().values()} == {"done"}
    bench = Bench(items(*[1.0] * 6), nodes=ONE, faults=[NodeDies(1.5, "a")])
    with pytest.raises(CannotPlace):
        bench.run()
    assert 300 < bench.world.now() < 310


def test_a_worker_with_nothing_left_to_do_is_let_go_after_a_second() -> None:
    bench = Bench(items(0.1, 30.0))
    bench.run()
    workers = {round(moment.now, 1): moment.workers for moment in bench.moments}
    assert (workers[0.9], workers[2.0]) == (2, 1)


def test_an_answer_to_an_earlier_attempt_on_the_same_worker_is_not_taken_for_one_to_this() -> None:
    bench = Bench(items(1.0, fails=1), Policy(retries=1), nodes=ONE, faults=[Duplicate(0.5, after_s=0.8)])
    record = bench.run()[1]
    assert bench.pool.fenced == 1
    assert (record.state, record.item.used, record.seconds) == ("done", 2, pytest.approx(1.0))


def test_a_stop_waits_for_what_runs_and_not_for_retries_whose_time_has_come() -> None:
    work = items(0.1, 30.0)
    work[0] = work[0]._replace(params={"seconds": 0.1, "fails": 1})
    work[1] = work[1]._replace(params={"seconds": 30.0, "ignores_cancel": True})
    bench = Bench(work, Policy(retries=1, backoff_s=1.0))
    bench.each_moment = lambda progress: bench.pool.stop() if progress.now > 0.5 else None
    turns = 0
    while bench.pool.step():
        turns += 1
        assert turns < 1000, "the loop spins"
    assert bench.world.now() < 8
    assert [record.state for record in bench.journal.records().values()] == ["waiting", "stopped"]
