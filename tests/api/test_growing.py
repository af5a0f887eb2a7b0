"""Hosts on their way: each counts until it is there, or until nobody should wait for it any longer."""

from __future__ import annotations

from shoal.api.growing import COME_S, Coming, _left_s
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
