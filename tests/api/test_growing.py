"""Hosts on their way: each counts until it is there, or until nobody should wait for it any longer."""

from __future__ import annotations

from shoal.api.growing import COME_S, WAIT_S, Coming, Waiting, _left_s, for_a_place
from shoal.plan.scaling import Spare
from shoal.shape.base import Progress


def test_a_host_is_waited_for_until_it_is_there() -> None:
    coming = Coming()
    coming.ask("a")
    coming.ask("b")
    assert coming.look(set(), 0.0) == {"a", "b"}
    assert coming.look({"a"}, 10 * COME_S) == {"b"}
    coming.drop("b")
    assert coming.look({"a"}, 10 * COME_S) == set()


def test_a_host_that_was_started_and_does_not_show_is_not_waited_for_for_ever() -> None:
    coming = Coming()
    coming.ask("a")
    coming.look(set(), 0.0)
    coming.started("a")
    assert coming.look(set(), 1000.0) == {"a"}
    assert coming.look(set(), 1000.0 + COME_S) == {"a"}
    assert coming.look(set(), 1001.0 + COME_S) == set()
    coming.ask("a")
    assert coming.look(set(), 1002.0 + COME_S) == {"a"}, "it may be asked for again"


def test_what_was_found_so_far_counts_while_more_is_being_found() -> None:
    progress = Progress(10.0, {}, 4, [], 4, 1.0, None, 3.0, least_s=600.0)
    assert _left_s(progress) == 600.0
    assert _left_s(progress._replace(remaining_s=50.0)) == 50.0


def test_a_run_that_has_no_worker_for_a_while_is_a_reason_to_start_one_node() -> None:
    waiting = Waiting()
    bare = Progress(10.0, {}, 4, [], 0, 0.0, None, None)
    assert not waiting.look(bare)
    assert waiting.look(bare._replace(now=10.0 + WAIT_S))
    assert not waiting.look(bare._replace(now=20.0, workers=1)), "it has one"
    assert not waiting.look(bare._replace(now=30.0)), "it has been without one only since now"
    assert not waiting.look(bare._replace(now=40.0, waiting=0)), "it has no work"
    spares = [Spare("a", 4, 60.0), Spare("b", 4, 60.0)]
    assert [growth.host for growth in for_a_place(spares, 2)] == ["a"]
    assert for_a_place(spares, 0) == for_a_place(spares, -1) == for_a_place([], 2) == []
