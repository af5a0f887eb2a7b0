"""The memory of workers: predicted from what they held, never beyond what there is."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.advice import Machine, Measured, Setting
from shoal.planner.tuner.batches import MARGIN, Growth, Memory, fit_memory

GIB = 1 << 30
MIB = 1 << 20


def measured(batch: int, memory: int, device: int = 0, runtime: str = "as-given") -> Measured:
    return Measured(Setting(runtime, batch, 1), 2, 10 * batch, 1.0, 0.9, memory, device)


@given(st.dictionaries(st.integers(1, 512), st.floats(1.0, 1e12), min_size=1, max_size=6))
def test_growth_never_falls_and_what_a_batch_was_seen_to_hold_is_enough_for_it(
    points: dict[int, float],
) -> None:
    growth = fit_memory(points)
    assert growth is not None
    rounding = 1e-9 * max(points.values())
    along = [growth.at(batch) for batch in range(1, 1024)]
    assert all(before <= after + rounding for before, after in pairwise(along))
    assert all(growth.at(batch) <= value + rounding for batch, value in points.items())
    assert growth.at(max(points)) == pytest.approx(points[max(points)])


def test_two_points_are_a_line_and_one_is_flat() -> None:
    growth = fit_memory({1: 110.0, 4: 140.0})
    assert growth is not None
    assert [growth.at(batch) for batch in (0, 1, 3, 4, 10)] == pytest.approx([100, 110, 130, 140, 200])
    assert [growth.most(limit, 8) for limit in (99.0, 130.0, 1000.0)] == [0, 3, 8]
    assert fit_memory({4: 140.0}) == Growth(((4, 140.0),))
    assert fit_memory({}) is None


def test_a_leap_at_large_batches_says_nothing_about_small_ones() -> None:
    """As libraries of a GPU take memory of their own from some size on: seen on a real one, in MB."""
    memory = Memory(Machine(8, 256 * GIB, 1, 24 * GIB))
    for batch, megabytes in ((4, 865), (121, 1430), (505, 6673), (1024, 6673)):
        memory.hear(measured(batch, GIB, megabytes * MIB))
    assert memory.fitting("as-given", 121, 16) == 13
    assert 121 < memory.allowed("as-given", 8, 1024) < 240


def test_a_batch_is_bounded_by_what_all_workers_of_the_node_hold_together() -> None:
    memory = Memory(Machine(2, 4 * GIB))
    memory.hear(measured(1, 500 * MIB))
    memory.hear(measured(16, 650 * MIB))
    memory.hear(measured(64, 1130 * MIB))
    assert memory.allowed("as-given", 2, 1024) == pytest.approx(114, abs=8)  # 4 GiB * 0.8 / 2 = 1,638 MiB
    assert memory.holds("as-given", memory.allowed("as-given", 2, 1024), 2)
    assert not memory.holds("as-given", 256, 2)
    assert memory.allowed("as-given", 1, 1024) == 256  # Four times what is known to do.


def test_memory_of_the_gpu_is_shared_by_its_workers() -> None:
    memory = Memory(Machine(16, 1024 * GIB, 2, 10 * GIB))
    memory.hear(measured(16, GIB, 1 * GIB))
    memory.hear(measured(32, GIB, 2 * GIB))
    assert memory.allowed("as-given", 2, 1024) == 128  # One on each.
    assert memory.allowed("as-given", 4, 1024) == 64  # Two share 8 GiB.
    assert memory.fitting("as-given", 64, 16) == 4


def test_a_small_batch_after_a_large_one_does_not_hide_what_large_ones_take() -> None:
    memory = Memory(Machine(2, 4 * GIB))
    memory.hear(measured(1, 500 * MIB))
    memory.hear(measured(64, 1130 * MIB))
    memory.hear(measured(1, 1130 * MIB))
    assert memory.expected("as-given", 128) == pytest.approx(1770 * MIB, rel=0.01)


def test_out_of_memory_halves_the_batch_for_good() -> None:
    memory = Memory(Machine(2, 64 * GIB))
    memory.hear(measured(64, GIB))
    memory.ran_out(Setting("as-given", 64, 1), 2)
    assert memory.allowed("as-given", 2, 1024) == 32
    later = Memory(Machine(2, 64 * GIB))
    later.read(json.loads(json.dumps(memory.document())))
    assert later.allowed("as-given", 2, 1024) == 32


def test_what_ran_out_at_a_gpu_binds_as_many_workers_in_this_run() -> None:
    machine = Machine(4, 64 * GIB, 1, 48 * GIB)
    memory = Memory(machine)
    memory.hear(measured(64, GIB, GIB))
    memory.ran_out(Setting("as-given", 64, 1), 4)
    assert memory.allowed("as-given", 4, 64) == 32
    later = Memory(machine)
    later.read(json.loads(json.dumps(memory.document())))
    assert later.allowed("as-given", 4, 64) == 64
    memory.crowded(4)
    assert memory.allowed("as-given", 3, 64) == 64


def test_out_of_memory_with_one_input_at_a_time_halves_the_workers() -> None:
    memory = Memory(Machine(8, 64 * GIB))
    memory.hear(measured(1, GIB))
    memory.ran_out(Setting("as-given", 1, 1), 8)
    assert memory.fitting("as-given", 1, 8) == 4


def test_on_a_small_node_few_workers_begin_until_one_has_told() -> None:
    memory = Memory(Machine(8, 4 * GIB))
    assert memory.fitting("as-given", 1, 8) == 3
    memory.hear(measured(1, 100 * MIB))
    assert memory.fitting("as-given", 1, 8) == 8


def test_a_runtime_that_is_new_is_trusted_as_far_as_others_were_seen_to_go() -> None:
    memory = Memory(Machine(2, 64 * GIB))
    assert memory.allowed("openvino", 2, 1024) == 4
    memory.hear(measured(1, 500 * MIB))
    memory.hear(measured(64, 1130 * MIB))
    assert memory.allowed("openvino", 2, 1024) == 64


def test_a_single_point_of_one_runtime_is_as_steep_as_another_and_changes_nothing_about_it() -> None:
    memory = Memory(Machine(2, 4 * GIB))
    memory.hear(measured(1, 510 * MIB))
    memory.hear(measured(64, 1140 * MIB))
    memory.hear(measured(64, 1240 * MIB, runtime="openvino"))
    assert memory.expected("openvino", 1) == 610 * MIB
    assert memory.expected("as-given", 128) == 1780 * MIB


@given(
    st.lists(st.tuples(st.integers(1, 256), st.integers(1, 8 * GIB)), max_size=6),
    st.integers(1, 16),
    st.integers(1, 64 * GIB),
)
def test_what_is_allowed_holds_unless_it_is_the_least_there_is(
    points: list[tuple[int, int]], workers: int, total: int
) -> None:
    memory = Memory(Machine(16, total))
    for batch, value in points:
        memory.hear(measured(batch, value))
    batch = memory.allowed("as-given", workers, 1024)
    fitting = memory.fitting("as-given", 1, workers)
    assert batch == 1 or memory.holds("as-given", batch, workers)
    assert fitting == 1 or not points or memory.holds("as-given", 1, fitting)
    expected = memory.expected("as-given", batch)
    if expected is not None and batch > 1:
        assert expected * workers <= (1 - MARGIN) * total * (1 + 1e-6) + workers


def test_more_workers_than_there_was_room_for_are_not_held_again() -> None:
    memory = Memory(Machine(8, 64 * GIB))
    memory.hear(measured(8, GIB))
    assert memory.holds("as-given", 8, 4)
    memory.crowded(4)
    assert not memory.holds("as-given", 8, 4)
    assert memory.holds("as-given", 8, 3)
