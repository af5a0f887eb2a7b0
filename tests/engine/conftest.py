"""Ray clusters on this machine for tests: a head that does no work, nodes by name, and the end of all of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

PATIENCE_S = 30.0


class RayCluster:
    """A cluster that this process is connected to, if asked. The head has a role that keeps work away from it."""

    def __init__(self, *, connect: bool = True) -> None:
        import ray
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "labels": {"shoal.role": "driver"}}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self.cluster.address
        if connect:
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)

    def add(self, host: str, **size: Any) -> Any:
        return self.cluster.add_node(**{**size, "labels": {"shoal.host": host, **size.get("labels", {})}})

    def lose_head(self) -> None:
        """As when the machine it is on loses power: nobody is told."""
        [gcs] = self.cluster.head_node.all_processes["gcs_server"]
        os.kill(gcs.process.pid, signal.SIGKILL)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()

    def free(self, name: str) -> float:
        """How much of a resource nobody holds, on all nodes together, as Ray sees it."""
        import ray

        return float(ray.available_resources().get(name, 0.0))

    def wait_until_free(self) -> None:
        import ray

        total = ray.cluster_resources()
        self.until(lambda: all(self.free(name) == total.get(name, 0.0) for name in ("CPU", "GPU", "memory")))

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for it, with patience but not for ever."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, "what was waited for did not come"
            time.sleep(0.02)


@pytest.fixture
def unconnected() -> Iterator[Callable[..., RayCluster]]:
    """Makes clusters for other processes to connect to, each with one node of so many CPUs."""
    made: list[RayCluster] = []

    def make(cpus: int) -> RayCluster:
        made.append(RayCluster(connect=False))
        made[-1].add(f"node{len(made)}", num_cpus=cpus)
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Callable[..., RayCluster]]:
    """Makes the module's cluster, with a node of each name, sized as `Cluster.add_node` has it."""
    made: list[RayCluster] = []

    def make(**nodes: Any) -> RayCluster:
        made.append(RayCluster())
        for host, size in nodes.items():
            made[0].add(host, **size)
        return made[0]

    yield make
    for cluster in made:
        cluster.close()
