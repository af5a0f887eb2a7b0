"""How much Ray's autoscaler is asked for. Without one; tests/clusters/test_ray_autoscaler.py has a real one."""

from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
from collections import Counter

from shoal.engine.ray.autoscaler import Choice, used_by_others
from shoal.model import Need, Node

pytestmark = pytest.mark.ray

CPU, GPU = Need(), Need(gpu=1)


class Autoscaler:
    """One that may have so many places of each sort; and what it is asked for in a row."""

    def __init__(self, *, cpu: int, gpu: int = 0) -> None:
        self.cpu, self.gpu = cpu, gpu
        self.choice = Choice()

    def asked(self, held: list[Need], wished: list[Need], times: int = 40) -> list[tuple[int, int]]:
        """How many places of each sort."""
        found = []
        for _ in range(times):
            counts = Counter(need.gpu for need in self.choice.of(held, wished))
            found.append((counts[0], counts[1]))
            self.choice.heard(possible=counts[0] <= self.cpu and counts[1] <= self.gpu)
        return found


@pytest.mark.parametrize("most", [1, 2, 3, 4, 30, 100])
def test_a_request_becomes_as_large_as_the_autoscaler_can_have_it(most: int) -> None:
    asked = Autoscaler(cpu=most).asked([CPU], [CPU] * 49)
    assert asked[0] == (50, 0), "it may be able to do all of it"
    assert asked[-1] == (min(50, most), 0)
    assert len(set(asked)) <= 14


def test_what_cannot_be_had_is_in_nobody_elses_way() -> None:
    scaled = Autoscaler(cpu=5, gpu=1)
    assert scaled.asked([GPU], [*[GPU] * 4, *[CPU] * 9])[-1] == (5, 1)
    assert scaled.asked([GPU, CPU], [*[CPU] * 2, *[GPU] * 4])[-1] == (3, 1), "no more than is wished for"


def test_what_could_be_done_is_found_again_when_it_becomes_less_or_more() -> None:
    scaled = Autoscaler(cpu=6)
    wishes = [CPU] * 2, [CPU] * 8
    assert scaled.asked(*wishes)[-1] == (6, 0)
    scaled.cpu = 4
    assert scaled.asked(*wishes)[-1] == (4, 0)
    scaled.cpu = 9
    assert scaled.asked(*wishes)[-1] == (4, 0), "nobody knows yet"
    scaled.choice.forget_refusals()
    assert scaled.asked(*wishes)[-1] == (9, 0)


def test_what_others_use_of_a_node_is_part_of_what_the_cluster_has_to_have() -> None:
    nodes = [Node("a", 4, 1 << 30), Node("b", 2, 1 << 30)]
    assert used_by_others(nodes, nodes) == []
    [other] = used_by_others(nodes, [nodes[0]._replace(cpu=1.0), nodes[1]])
    assert other.cpu == 3.0
