"""Places that stand together beside a pool, on real engines: the gang gets them, and the pool ends, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.base import Engine
from shoal.engine.local.engine import LocalEngine
from shoal.model import Granted, Item, Need, Node, Outcome, WorkerLost
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal
from shoal.testing.contract_base import item, scripted
from shoal.testing.events import collect, ended, heard, of

PATIENCE_S = 60.0
SIZES = [
    pytest.param(2, 2, id="2 on 2 CPUs"),
    pytest.param(3, 4, id="3 on 4 CPUs"),
    pytest.param(4, 4, id="4 on 4 CPUs"),
]
Open = Callable[[str, int], tuple[Engine, Need]]
"""An engine for a run of that name, and the need of a worker on its node of so many CPUs."""


class Endless:
    """Short items, until it is told that they suffice."""

    def __init__(self) -> None:
        self.enough = threading.Event()
        self._seq = 0

    def take(self, most: int, workers: int) -> Sequence[Item]:
        if self.enough.is_set():
            return []
        self._seq += most
        return [item(seq, seconds=0.02) for seq in range(self._seq - most + 1, self._seq + 1)]

    def left(self) -> int:
        return 0

    def finished(self) -> bool:
        return self.enough.is_set()

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


class Neighbour:
    """A pool that runs in a thread, with as many workers as there is room for."""

    def __init__(self, opened: tuple[Engine, Need]) -> None:
        self.engine, need = opened
        self.source = Endless()
        self.journal = MemoryJournal()
        self.pool = Pool(self.engine, self.journal, [Lane(scripted(), need)], self.source)
        self.thread = threading.Thread(target=self.pool.run)
        self.thread.start()

    def end(self) -> None:
        self.source.enough.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "the pool does not end"
        self.engine.close()
        records = self.journal.records().values()
        assert {record.state for record in records} == {"done"}


def the_gang_gets_its_places_and_the_pool_ends(start: Open, gang: int, cpus: int) -> None:
    neighbour = Neighbour(start("pool", cpus))
    engine, need = start("gang", cpus)
    try:
        while not neighbour.journal.records():
            engine.wait(0.02)
        reservation = engine.reserve([need] * gang, PATIENCE_S, together=True)
        places = reservation.places or of(Granted, collect(engine, heard(Granted), PATIENCE_S))[0].places
        assert len(places) == gang
        workers = [engine.spawn(scripted(), place) for place in places]
        for seq, worker in enumerate(workers, 1):
            engine.submit(worker, [item(seq, seconds=0.2)])
        collect(engine, ended(*range(1, gang + 1)), PATIENCE_S)
        before = len(neighbour.journal.records())
        for worker in workers:
            engine.end(worker)
        collect(engine, lambda events: len(of(WorkerLost, events)) == gang, PATIENCE_S)
        while len(neighbour.journal.records()) == before:
            engine.wait(0.02)
    finally:
        engine.close()
        neighbour.end()


@pytest.mark.parametrize(("gang", "cpus"), SIZES)
def test_on_one_machine(tmp_path: Path, gang: int, cpus: int) -> None:
    def start(name: str, cpus: int) -> tuple[Engine, Need]:
        return LocalEngine([Node("here", cpus, 1 << 34)], str(tmp_path / name)), Need()

    the_gang_gets_its_places_and_the_pool_ends(start, gang, cpus)


@pytest.fixture(scope="module")
def cluster(ray_cluster: Callable[..., Any]) -> Any:
    return ray_cluster(node2={"num_cpus": 2}, node4={"num_cpus": 4})


@pytest.fixture
def on_ray(cluster: Any, tmp_path: Path) -> Open:
    from shoal.engine.ray.engine import RayEngine

    cluster.wait_until_free()
    return lambda name, cpus: (RayEngine(str(tmp_path / name)), Need(node=f"node{cpus}"))


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Ray and its libraries warn of themselves.
@pytest.mark.parametrize(("gang", "cpus"), SIZES)
def test_on_a_ray_cluster(on_ray: Open, gang: int, cpus: int) -> None:
    the_gang_gets_its_places_and_the_pool_ends(on_ray, gang, cpus)
