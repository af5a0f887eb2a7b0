"""Which node has room for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import room
from shoal.errors import CannotPlace
from shoal.model import Need, Node, Place

NEEDS = st.lists(
    st.builds(
        Need,
        cpu=st.sampled_from((0.25, 0.5, 1, 2)),
        gpu=st.sampled_from((0, 0, 0.25, 0.5, 1, 2)),
        memory_bytes=st.integers(0, 4),
    ),
    min_size=1,
    max_size=12,
)
NODES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 10)), min_size=1, max_size=3
).map(lambda found: [Node(f"n{i}", cpu, memory, gpu) for i, (cpu, gpu, memory) in enumerate(found)])


@given(NEEDS, NODES)
def test_what_fits_never_exceeds_a_node_and_shares_no_device_beyond_one(
    needs: list[Need], nodes: list[Node]
) -> None:
    found = room.Rooms(nodes).fit(needs)
    if found is None:
        return
    for node in nodes:
        here = [
            (need, devices) for need, (host, devices) in zip(needs, found, strict=True) if host == node.host
        ]
        assert sum(need.cpu for need, _ in here) <= node.cpu + 1e-6
        assert sum(need.memory_bytes for need, _ in here) <= node.memory_bytes
        used: dict[str, float] = {}
        for need, devices in here:
            assert len(devices) == (int(need.gpu) if need.gpu >= 1 else int(need.gpu > 0))
            for device in devices:
                used[device] = used.get(device, 0) + min(1, need.gpu)
        assert len(used) <= node.gpu
        assert all(share <= 1 + 1e-6 for share in used.values())


@given(NEEDS, NODES)
def test_as_many_fit_as_the_capacity_says(needs: list[Need], nodes: list[Node]) -> None:
    count = min(room.capacity(needs[0], nodes), 200)
    assert room.Rooms(nodes).fit([needs[0]] * count) is not None
    if count < 200:
        assert room.Rooms(nodes).fit([needs[0]] * (count + 1)) is None


def test_devices_keep_the_names_that_the_machine_gave_them() -> None:
    node = Node("a", 4, 1, gpu=2, devices=("2", "3"))
    left = room.Rooms([node], [Place(1, "a", Need(gpu=1), ("2",))])
    assert left.fit([Need(gpu=1)]) == [("a", ("3",))]


def test_a_share_goes_to_the_device_that_is_shared_already() -> None:
    left = room.Rooms([Node("a", 8, 1, gpu=2)])
    assert left.fit([Need(gpu=0.5), Need(gpu=0.5), Need(gpu=1)]) is not None


def test_each_node_says_why_it_cannot() -> None:
    nodes = [Node("a", 1, 1 << 30), Node("b", 8, 1 << 30, labels={"tier": "edge"})]
    with pytest.raises(CannotPlace) as error:
        room.ensure_possible([Need(cpu=4, labels={"tier": "cloud"})], nodes)
    assert "a: label tier is not set, not cloud" in str(error.value)
    assert "b: label tier is edge, not cloud" in str(error.value)


@given(NEEDS, NODES, st.integers(1, 8))
def test_needs_that_are_packed_are_on_as_few_nodes_as_can_be(
    needs: list[Need], nodes: list[Node], count: int
) -> None:
    found = room.Rooms(nodes).fit([needs[0]] * count, packed=True)
    holds = sorted((room.capacity(needs[0], [node]) for node in nodes), reverse=True)
    if found is None:
        assert sum(holds) < count
    else:
        fewest = next(number for number in range(1, len(nodes) + 1) if sum(holds[:number]) >= count)
        assert len({host for host, _ in found}) == fewest
