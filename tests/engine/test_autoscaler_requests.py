"""How much Ray's autoscaler is asked for. Without one; tests/clusters/test_ray_autoscaler.py has a real one."""

from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
from shoal.engine.ray.autoscaler import Size, used_by_others
from shoal.model import Node

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("most", [1, 2, 3, 4, 30, 100])
def test_a_request_becomes_as_large_as_the_autoscaler_can_have_it(most: int) -> None:
    size, asked = Size(), []
    for _ in range(40):
        asked.append(size.of(1, 50))
        size.heard(asked[-1], fits=asked[-1] <= most)
    assert asked[0] == 50, "it may be able to do all of it"
    assert asked[-1] == min(50, most)
    assert len(set(asked)) <= 14


def test_what_could_be_done_is_found_again_when_it_becomes_less_or_more() -> None:
    size = Size()

    def settled(most: int) -> int:
        for _ in range(20):
            size.heard(size.of(2, 10), fits=size.of(2, 10) <= most)
        return size.of(2, 10)

    assert settled(6) == 6
    assert settled(4) == 4
    assert settled(9) == 4, "nobody knows yet"
    size.forget_refusal()
    assert settled(9) == 9


def test_what_others_use_of_a_node_is_part_of_what_the_cluster_has_to_have() -> None:
    nodes = [Node("a", 4, 1 << 30), Node("b", 2, 1 << 30)]
    assert used_by_others(nodes, nodes) == []
    [other] = used_by_others(nodes, [nodes[0]._replace(cpu=1.0), nodes[1]])
    assert other.cpu == 3.0
