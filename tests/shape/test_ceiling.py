"""How many workers of a pool each node may have."""

from __future__ import annotations

from shoal.engine.sim import Behaviour, SimWorld
from shoal.model import Need, Node
from shoal.shape.pool.lane_places import Ceiling

ANYWHERE = Need()
NODES = [Node("node0", 1, 1 << 30), Node("node1", 4, 1 << 30), Node("node2", 2, 1 << 30)]


def ceiling(most: dict[str, int] | None, need: Need = ANYWHERE) -> Ceiling:
    return Ceiling(SimWorld(NODES, lambda factory, item: Behaviour(1.0)).connect(), need, most)


def test_without_a_ceiling_workers_are_asked_for_anywhere() -> None:
    assert ceiling(None).capacity() == 7
    assert ceiling(None).next_needs(["node0"] * 9) == [ANYWHERE]


def test_a_node_has_as_many_workers_as_its_ceiling_and_its_room_allow() -> None:
    assert ceiling({"node0": 3, "node1": 2}).capacity() == 3
    assert ceiling({"node0": 1, "gone": 5}).capacity() == 1
    assert ceiling({"node0": 1, "node1": 1}, Need(node="node1")).capacity() == 1


def test_each_worker_is_asked_for_where_the_most_are_missing() -> None:
    hosts: list[str | None] = []
    while (needs := ceiling({"node0": 1, "node1": 3, "gone": 4}).next_needs(hosts)) is not None:
        hosts += [need.node for need in needs]
    assert hosts[:2] == ["node1", "node1"]
    assert sorted(map(str, hosts)) == ["node0", "node1", "node1", "node1"]
    assert ceiling({"node0": 1}).next_needs(["node0", "node0"]) is None
