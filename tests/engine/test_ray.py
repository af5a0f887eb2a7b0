"""The Ray engine keeps the same contract, on real nodes as large as the contract's, which the whole module shares."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.base import Engine
from shoal.model import Need, Node, WorkerReady
from shoal.testing import EngineContract
from shoal.testing.contract_base import scripted
from shoal.testing.contract_places import ALPHA, BETA
from shoal.testing.events import collect, heard

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.always,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

SIZES = {
    node.host: {
        "num_cpus": int(node.cpu),
        "memory": node.memory_bytes,
        "num_gpus": node.gpu,
        "labels": dict(node.labels),
    }
    for node in (ALPHA, BETA)
}
GONE_S = 15.0
"""How long what was ended may take to be gone."""


@pytest.fixture(scope="module")
def cluster(ray_cluster: Callable[..., Any]) -> Any:
    return ray_cluster(**SIZES)


class TestRayEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from shoal.engine.ray import nodes

        cluster.wait_until_free()
        self.real_nodes = nodes.alive
        self.folder = tmp_path
        self.patch = monkeypatch

    def make_engine(self, nodes: Sequence[Node], name: str = "run") -> Engine:
        """The real nodes of these names, as Ray has them, but for Shoal's marks, in this order; and no others."""
        from shoal.engine.ray import engine

        wanted, real = [node.host for node in nodes], self.real_nodes

        def alive() -> dict[str, tuple[str, Node]]:
            found = real()
            return {host: (found[host][0], _unmarked(found[host][1])) for host in wanted if host in found}

        self.patch.setattr(engine.ray_nodes, "alive", alive)
        return engine.RayEngine(str(self.folder / name))

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        return self.make_engine(nodes), self.make_engine(nodes, "other")

    def leftovers(self, engine: Engine) -> Sequence[str]:
        """Of all engines here: there is one at a time. Ray ends things after it said so, within seconds."""
        give_up = time.monotonic() + GONE_S
        while (left := self._left(engine)) and time.monotonic() < give_up:
            time.sleep(0.05)
        return left

    def _left(self, engine: Any) -> list[str]:
        from shoal.engine.ray import arbiter

        groups = ray.util.placement_group_table().values()
        held = [f"group {group['name']}" for group in groups if group["state"] != "REMOVED"]
        claims = [f"claim on {host}" for host in ray.get(arbiter.find_or_make().busy.remote())]
        return [*held, *claims, *_processes_of(engine._name)]


def _unmarked(node: Node) -> Node:
    return node._replace(
        labels={key: value for key, value in node.labels.items() if not key.startswith("shoal.")}
    )


def _processes_of(run: str) -> list[str]:
    """Processes that have a file of the run's folder on a node open: workers, which have their log."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
            if any(f"/runs/{run}/" in link for link in links):
                found.append(f"process {pid}")
    return found


def test_a_worker_that_lives_is_among_the_processes_of_its_run(cluster: Any, tmp_path: Path) -> None:
    """Otherwise the look for what is left would never find anything."""
    from shoal.engine.ray.engine import RayEngine

    engine = RayEngine(str(tmp_path / "run"))
    try:
        [place] = engine.reserve([Need()], 30.0).places
        engine.spawn(scripted(), place)
        collect(engine, heard(WorkerReady), 30.0)
        assert len(_processes_of(engine._name)) == 1
    finally:
        engine.close()
