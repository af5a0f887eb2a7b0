"""How workers and threads share a node's cores: what may be tried there, and where to begin."""

from __future__ import annotations

import pytest

from shoal.model.advice import Machine, Space
from shoal.planner.tuner.arrangements import Arrangement, first, ladder, permitted

GIB = 1 << 30


def space(places: int, *, gpu: int = 0, threads: int | None = None, workers: int | None = None) -> Space:
    machine = Machine(8, 64 * GIB, gpu, gpu * 80 * GIB, places)
    return Space(("as-given",), machine, threads=threads, workers=workers)


@pytest.mark.parametrize(
    ("space", "rungs"),
    [
        (space(0), ["1 x 8 threads", "2 x 4 threads", "4 x 2 threads", "8 x 1 thread"]),
        (space(2), ["1 x 8 threads", "2 x 4 threads"]),
        (space(3), ["1 x 8 threads", "2 x 4 threads", "3 x 2 threads"]),
        (space(1, gpu=1), ["1 x 8 threads"]),
        (space(4, gpu=2), ["2 x 4 threads", "4 x 2 threads"]),
        (space(2, threads=1), ["2 x 1 thread"]),
        (space(2, workers=3), ["3 x 2 threads"]),
        (space(20), ["1 x 8 threads", "2 x 4 threads", "4 x 2 threads", "8 x 1 thread"]),
    ],
    ids=[
        "a core each",
        "two",
        "three",
        "the GPU",
        "halves of GPUs",
        "threads given",
        "workers given",
        "many",
    ],
)
def test_as_many_workers_as_have_a_place_share_all_of_the_cores(space: Space, rungs: list[str]) -> None:
    assert [str(rung) for rung in ladder(space)] == rungs
    assert all(permitted(space, rung) for rung in ladder(space))
    assert str(first(space)) == rungs[-1]


def test_more_workers_than_places_are_not_taken_over_from_an_earlier_run() -> None:
    assert permitted(space(0), Arrangement(4, 2))
    assert not permitted(space(2), Arrangement(4, 2))


def test_nodes_with_other_places_are_of_another_kind() -> None:
    assert Machine(8, 64 * GIB, places=8).kind == Machine(8, 64 * GIB).kind == "8cpu-64gib"
    assert Machine(8, 64 * GIB, 1, 80 * GIB, 2).kind == "8cpu-64gib-1gpu80gib-2places"
