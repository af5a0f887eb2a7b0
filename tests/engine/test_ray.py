"""The Ray engine keeps the same contract, on a real cluster of one machine that the whole module shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shoal.engine.base import Engine
from shoal.model import Node
from shoal.testing import EngineContract

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


class TestRayEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path
        self.patch = monkeypatch

    def make_engine(self, nodes: Sequence[Node], name: str = "run") -> Engine:
        """The contract's nodes, all of them on the one real node."""
        from shoal.engine.ray import engine

        [(node_id, _)] = engine.ray_nodes.alive().values()
        self.patch.setattr(engine.ray_nodes, "alive", lambda: {node.host: (node_id, node) for node in nodes})
        return engine.RayEngine(str(self.folder / name))

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        real = self.make_engine(nodes)
        from shoal.engine.ray import engine

        return real, engine.RayEngine(str(self.folder / "other"))
