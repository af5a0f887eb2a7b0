"""Which nodes count as idle, and that looking for them never ends. Without a cluster."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
from shoal.engine.claims import Ask
from shoal.engine.ray import arbiter, keeper
from shoal.engine.ray.nodes import Free
from shoal.model import Need, Node

pytestmark = pytest.mark.ray


def test_a_node_that_installs_packages_is_busy_as_long_as_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = arbiter.Arbiter()
    made.prepares(["a", "b"])
    assert made.busy() == ["a", "b"]
    monkeypatch.setattr(arbiter, "SILENT_S", 0.0)
    assert made.busy() == []


def test_nodes_that_somebody_waits_for_a_place_on_are_busy() -> None:
    made = arbiter.Arbiter()
    nodes = [Node("a", 1, 1 << 30), Node("b", 4, 1 << 30), Node("c", 4, 1 << 30)]
    free = {"a": Free(1.0, 0.0, 1 << 30)}  # Another program has the others.
    asks = [Ask(1, (Need(cpu=2), Need(cpu=2)), 0.0, together=True)]
    assert made.settle("me", nodes, free, asks, 0.0, 1) == ({}, [])
    assert made.busy() == ["b", "c"]
    assert made.settle("me", nodes, free, [], 0.0, 1) == ({}, [])
    assert made.busy() == []


def test_a_look_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    class Stumbling(keeper.Keeper):
        async def _look_around(self) -> None:
            looks.append(len(looks))
            raise RuntimeError("the head is slow")

    async def watched() -> None:
        keeping = asyncio.create_task(Stumbling(keeper.Terms(1, 1.0), "nowhere").keep())
        while len(looks) < 3:
            await asyncio.sleep(0.001)
            assert not keeping.done()
        keeping.cancel()

    monkeypatch.setattr(keeper, "LOOK_S", 0.001)
    asyncio.run(asyncio.wait_for(watched(), 30))
