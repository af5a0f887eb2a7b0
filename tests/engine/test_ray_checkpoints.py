"""Checkpoints on a Ray cluster: whatever an attempt left is there for the next one, wherever it runs."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, weed
from shoal.files import Storage, open_storage
from shoal.model import Factory, Item, Need
from shoal.shape.base import Ended, Policy, Progress
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

TRIAL = """
import os, time
class Trial:
    def run(self, work):
        folder = os.environ["SHOAL_CHECKPOINT_DIR"]
        found = sorted(os.listdir(folder))
        if found:
            return {"found": open(os.path.join(folder, "deep", "step")).read(), "node": os.environ.get("WHERE")}
        os.mkdir(os.path.join(folder, "deep"))
        with open(os.path.join(folder, "deep", "step"), "w") as file:
            file.write(work.id)
        if os.path.exists(os.path.join(os.getcwd(), "wait")):
            time.sleep(60)
        raise ValueError("on purpose")
"""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Its nodes know the storage from their environment, as those of users do."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        if weed() is not None:
            patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            patch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("seaweed").endpoint)
        yield from _running(Cluster)


def _running(cluster_type: Any) -> Iterator[Any]:
    made = cluster_type(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


class Few:
    """A source of a few items."""

    def __init__(self, count: int) -> None:
        self._items = [Item(number, f"t{number}", {}) for number in range(1, count + 1)]

    def take(self, most: int, workers: int) -> list[Item]:
        items, self._items = self._items, []
        return items

    def left(self) -> int:
        return len(self._items)

    def finished(self) -> bool:
        return not self._items

    def progressed(self, *_: Any) -> None:
        return None

    def ended(self, *_: Any) -> None:
        return None


class Watch:
    """Keeps the ends, and does something once when `when` says so."""

    def __init__(self, when: Any = lambda: False, do: Any = None) -> None:
        self.ended: list[Ended] = []
        self._when, self._do = when, do

    def durable(self, ended: Any) -> None:
        self.ended += ended

    def moment(self, progress: Progress) -> None:
        if self._do is not None and self._when():
            self._do, do = None, self._do
            do()


def run_pool(
    root: Path, work: Path, watch: Watch, storage: Storage | None, need: Need, count: int = 3
) -> None:
    from shoal.engine.ray.engine import RayEngine

    engine = RayEngine(str(root), folder=str(work), storage=storage)
    factory = Factory("trial:Trial", {}, {}, str(work))
    policy = Policy(retries=1, backoff_s=0.01)
    try:
        Pool(engine, MemoryJournal(), [Lane(factory, need, policy)], Few(count), watcher=watch).run()
    finally:
        engine.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "trial.py").write_text(TRIAL)
    return folder


@pytest.mark.parametrize("kind", ["driver", "shared folder", pytest.param("s3", marks=pytest.mark.s3)])
def test_the_next_attempt_finds_what_the_last_one_left(
    cluster: Any, tmp_path: Path, work: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    storage, began_s = None, time.time()
    if kind == "shared folder":
        storage = open_storage(str(tmp_path / "shared"))
    elif kind == "s3":
        storage = open_storage(request.getfixturevalue("bucket").url)
    root = tmp_path / "run-1"
    watch = Watch()
    run_pool(root, work, watch, storage, Need(cpu=0.5))
    left = Path(tempfile.gettempdir(), f"shoal-{os.getuid()}", "runs").glob("run-1-*")
    assert [path for path in left if path.stat().st_mtime > began_s] == [], "nothing is left on the nodes"
    found = {ended.item.id: ended.outcome.metrics.get("found") for ended in watch.ended}
    assert found == {"t1": "t1", "t2": "t2", "t3": "t3"}
    if storage is None:
        assert (root / "checkpoints" / "t2" / "deep" / "step").read_text() == "t2"
    else:
        [mark] = [each.key for each in storage.list("runs/run-1/checkpoints/t2", "*.complete")]
        assert mark.startswith("runs/run-1/checkpoints/t2/0."), "a version of this turn, and no other is left"
        assert storage.read(f"{mark.removesuffix('.complete')}/deep/step") == b"t2"


def test_what_a_storage_does_not_take_the_next_attempt_has_from_the_driver(
    cluster: Any, tmp_path: Path, work: Path
) -> None:
    storage = open_storage("http://127.0.0.1:1/nobody-writes-here")
    root, watch = tmp_path / "run-1", Watch()
    run_pool(root, work, watch, storage, Need(cpu=0.5))
    found = {ended.item.id: ended.outcome.metrics.get("found") for ended in watch.ended}
    assert found == {"t1": "t1", "t2": "t2", "t3": "t3"}
    said = "".join(path.read_text() for path in (root / "logs").iterdir())
    assert "shoal: The checkpoint of t1 cannot be kept: " in said
    assert "It is sent to the driver instead." in said


def test_a_node_that_is_lost_leaves_its_checkpoints_behind(cluster: Any, tmp_path: Path, work: Path) -> None:
    (work / "wait").touch()
    root = tmp_path / "run-1"
    doomed = cluster.add_node(num_cpus=1, labels={"shoal.host": "doomed", "at": "work"})
    heir = cluster.add_node(num_cpus=1, labels={"shoal.host": "heir", "at": "work"})
    step = root / "checkpoints" / "t1" / "deep" / "step"
    nodes: list[Any] = [doomed, heir]

    def lose() -> None:
        """The one that the item runs on."""
        from shoal.engine.ray import nodes as ray_nodes

        ids = {host: node_id for host, (node_id, _) in ray_nodes.alive().items()}
        [running] = watch_progress[-1].running
        lost = next(node for node in nodes if node.node_id == ids[running.node])
        cluster.remove_node(lost, allow_graceful=False)
        nodes.remove(lost)

    watch_progress: list[Progress] = []
    watch = Watch(lambda: step.exists(), lose)
    moment = watch.moment

    def both(progress: Progress) -> None:
        watch_progress.append(progress)
        moment(progress)

    watch.moment = both  # type: ignore[method-assign]
    try:
        run_pool(root, work, watch, None, Need(cpu=1, labels={"at": "work"}), count=1)
    finally:
        for node in nodes:
            cluster.remove_node(node)
    [ended] = watch.ended
    assert ended.outcome.metrics.get("found") == "t1"
    assert os.path.exists(step)


def test_what_an_actor_tells_while_a_batch_travels_is_not_left_behind() -> None:
    """An item that was refused then, with nothing else going on, would never have ended."""
    from shoal.engine.ray.actor import WorkerActor
    from shoal.engine.workers import messages

    async def told() -> None:
        actor: Any = object.__new__(WorkerActor)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            actor._connection, actor._changed = SimpleNamespace(open=True, socket=ours), asyncio.Event()
            actor._gone, actor._gathered = None, []
            actor._tell(messages.Broken("x"))
            await asyncio.wait_for(actor._something(), 1.0)
            actor._gathered = []
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(actor._something(), 0.05)

    asyncio.run(told())
