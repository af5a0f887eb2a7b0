"""Where attempts ended is known to the next one."""

from __future__ import annotations

from shoal.spec.shared_sections import Output
from shoal.work.outputs import NOWHERE, Crumbs, PartWriter
from shoal.work.outputs.layout import crumb_key, opened


def test_positions_of_earlier_attempts_are_counted_for_each_item(output: Output) -> None:
    crumbs = PartWriter(output, ".", "a-1").crumbs
    assert not crumbs.suspects(7)
    for position in (3, 4, 5):
        crumbs.at(7, 1, position)
    crumbs.at(7, 2, 5)
    crumbs.at(7, 11, 9)
    crumbs.at(8, 1, 1)
    assert Crumbs(opened(output, ".")).suspects(7) == {5: (2, 0), 9: (1, 0)}
    assert crumbs.suspects(8) == {1: (1, 0)}


def test_it_is_known_which_of_them_took_too_long(local_output: Output) -> None:
    crumbs = PartWriter(local_output, ".", "a-1").crumbs
    crumbs.at(7, 1, 5)
    for attempt in (2, 3):
        crumbs.at(7, attempt, 5, timed_out=True)
    crumbs.at(7, 4, NOWHERE, timed_out=True)
    crumbs.at(7, 5, NOWHERE)
    assert crumbs.suspects(7) == {5: (3, 2)}


def test_a_crumb_that_cannot_be_read_does_not_count(local_output: Output) -> None:
    storage = opened(local_output, ".")
    for attempt, content in enumerate((b"", b"[1]", b"{}", b'{"position": "x"}')):
        storage.write(crumb_key(7, attempt), content)
    assert not Crumbs(storage).suspects(7)
