"""The Ray engine keeps the same contract, on real nodes as large as the contract's, which the whole module shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.base import Engine
from shoal.model import Node
from shoal.testing import EngineContract

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.always,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

GIB = 1 << 30
SIZES = {
    "alpha": {"num_cpus": 2, "memory": 4 * GIB},
    "beta": {"num_cpus": 4, "memory": 2 * GIB, "num_gpus": 2},
}


@pytest.fixture(scope="module")
def cluster(ray_cluster: Callable[..., Any]) -> Any:
    return ray_cluster(**SIZES)


class TestRayEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster.wait_until_free()
        from shoal.engine.ray import nodes

        self.ids = {host: node_id for host, (node_id, _) in nodes.alive().items()}
        self.folder = tmp_path
        self.patch = monkeypatch

    def make_engine(self, nodes: Sequence[Node], name: str = "run") -> Engine:
        """The real nodes, under the labels that the test wants, and no others."""
        from shoal.engine.ray import engine

        self.patch.setattr(
            engine.ray_nodes, "alive", lambda: {node.host: (self.ids[node.host], node) for node in nodes}
        )
        return engine.RayEngine(str(self.folder / name))

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        return self.make_engine(nodes), self.make_engine(nodes, "other")
