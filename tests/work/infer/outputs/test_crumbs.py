"""Where attempts died is known to the next one."""

from __future__ import annotations

from shoal.spec.infer import Output
from shoal.work.infer.outputs import Crumbs, PartWriter
from shoal.work.infer.outputs.layout import crumb_key, opened


def test_positions_of_earlier_attempts_are_counted_for_each_item(output: Output) -> None:
    crumbs = PartWriter(output, ".", "a-1").crumbs
    assert not crumbs.suspects(7)
    for position in (3, 4, 5):
        crumbs.at(7, 1, position)
    crumbs.at(7, 2, 5)
    crumbs.at(7, 11, 9)
    crumbs.at(8, 1, 1)
    assert Crumbs(opened(output, ".")).suspects(7) == {5: 2, 9: 1}
    assert crumbs.suspects(8) == {1: 1}


def test_a_crumb_that_cannot_be_read_does_not_count(local_output: Output) -> None:
    storage = opened(local_output, ".")
    for attempt, content in enumerate((b"", b"[1]", b"{}", b'{"position": "x"}')):
        storage.write(crumb_key(7, attempt), content)
    assert not Crumbs(storage).suspects(7)
