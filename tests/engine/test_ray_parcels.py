"""What travels between a Ray node and its driver: in bounded memory, while an item runs, contained if it goes wrong."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StoreError
from shoal.model import Factory, Item, ItemEnded, ItemStarted, Need, WorkerLost
from shoal.shape.base import Policy
from shoal.shape.pool import Lane, Pool
from shoal.testing.events import collect, ended, heard, lost, of

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

MIB = 1 << 20
HOUR_S = 3600.0
PATIENCE_S = 60.0
TRIAL = """
import os, sys, time
class Trial:
    def run(self, work):
        do, folder = work.params["do"], os.environ["SHOAL_ITEM_DIR"]
        return getattr(self, do)(work, folder)

    def large(self, work, folder):
        checkpoint = os.environ["SHOAL_CHECKPOINT_DIR"]
        state = os.path.join(checkpoint, "state")
        found = os.path.getsize(state) if os.path.exists(state) else 0
        for base in (folder, checkpoint):
            with open(os.path.join(base, "state"), "wb") as file:
                file.truncate(work.params["bytes"] - 3)
                file.seek(0, 2)
                file.write(b"end")
        return {"found": found}

    def leave(self, work, folder):
        for name in work.params["names"]:
            open(os.path.join(folder, name), "w").close()

    def talk(self, work, folder):
        number = 0
        while not os.path.exists(work.params["until"]):
            number += 1
            print("line", number, flush=True)
            time.sleep(0.1)

    def sleep(self, work, folder):
        time.sleep(work.params["seconds"])
"""
DRIVER = """
import json, os, sys, threading, time
import ray
from shoal.engine.ray.engine import RayEngine
from shoal.model import Factory, Item, ItemEnded, Need
from shoal.testing.events import collect, ended, of

address, root, work, size = sys.argv[1:5]
ray.init(address=address, log_to_driver=False, configure_logging=False)

def resident(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            found = dict(line.split(":", 1) for line in file)
    except OSError:
        return {}
    return {name: int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon") if name in found}

def actors():
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().startswith(b"ray::WorkerActor"):
                    yield pid
        except OSError:
            pass

peaks = {"driver": {}, "actor": {}}
def watch():
    found = []
    for turn in range(1 << 30):
        if turn % 20 == 0:
            found = list(actors())
        for who, pids in (("driver", ["self"]), ("actor", found)):
            for pid in pids:
                for name, size in resident(pid).items():
                    peaks[who][name] = max(size, peaks[who].get(name, 0))
        time.sleep(0.01)

engine = RayEngine(root, folder=work)
[place] = engine.reserve([Need()], 60.0).places
worker = engine.spawn(Factory("mine:Trial", {}, {}, work), place)
threading.Thread(target=watch, daemon=True).start()
engine.submit(worker, [Item(9, "t9", {"do": "large", "bytes": 10}, attempt=1)])
collect(engine, ended(9), 60.0)
while not peaks["actor"]:  # It may not have been looked at so far.
    engine.wait(0.01)
before = json.loads(json.dumps(peaks))
engine.submit(worker, [Item(1, "t1", {"do": "large", "bytes": int(size)}, attempt=1)])
collect(engine, ended(1), 250.0)
kept = {}
for name in ("items", "checkpoints"):
    with open(os.path.join(root, name, "t1", "state"), "rb") as file:
        kept[name] = file.seek(-3, 2) + 3, file.read().decode()
engine.submit(worker, [Item(1, "t1", {"do": "large", "bytes": 10}, attempt=2)])
[end] = of(ItemEnded, collect(engine, ended(1), 250.0))
engine.close()
found = end.outcome.metrics.get("found")
print(json.dumps({"before": before, "peaks": peaks, "kept": kept, "found": found}))
"""


@pytest.fixture(scope="module")
def cluster(ray_cluster: Callable[..., Any]) -> Any:
    return ray_cluster(node={"num_cpus": 2})


@pytest.fixture
def work(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.py").write_text(TRIAL)
    return str(tmp_path / "work")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def engine(cluster: Any, root: Path, work: str) -> Iterator[Any]:
    from shoal.engine.ray.engine import RayEngine

    cluster.wait_until_free()
    made = RayEngine(str(root), folder=work)
    yield made
    made.close()


def spawn(engine: Any, work: str) -> int:
    [place] = engine.reserve([Need()], PATIENCE_S).places
    return int(engine.spawn(Factory("mine:Trial", {}, {}, work), place))


def item(seq: int, do: str, *, attempt: int = 1, **params: Any) -> Item:
    return Item(seq, f"t{seq}", {"do": do, **params}, attempt=attempt)


def until(condition: Callable[[], object], engine: Any, what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come"
        engine.wait(0.02)


def transferred(cluster: Any, root: Path, work: str, size: int) -> dict[str, Any]:
    """A driver of its own, and how much memory it and the actor had at most while that much went both ways."""
    command = [sys.executable, "-c", DRIVER, cluster.address, str(root), work, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["kept"] == {"items": [size, "end"], "checkpoints": [size, "end"]}
    assert told["found"] == size, "the second attempt found what the first left"
    return told


def test_what_is_large_goes_both_ways_through_little_memory(cluster: Any, root: Path, work: str) -> None:
    cluster.wait_until_free()
    told = transferred(cluster, root, work, 64 * MIB)
    for who in ("driver", "actor"):
        grown = told["peaks"][who]["RssAnon"] - told["before"][who]["RssAnon"]
        assert grown < 40 * MIB, f"the {who} holds {grown / MIB:.0f} MiB more"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_gigabytes_go_through_a_driver_of_less_than_half_of_one(
    cluster: Any, root: Path, work: str
) -> None:
    cluster.wait_until_free()
    told = transferred(cluster, root, work, 2048 * MIB)
    for who in ("driver", "actor"):
        assert told["peaks"][who]["VmRSS"] < 500_000_000, f"the {who} took {told['peaks'][who]}"


def test_what_an_item_prints_is_here_while_it_runs_though_it_says_nothing_else(
    engine: Any, root: Path, work: str, tmp_path: Path
) -> None:
    worker = spawn(engine, work)
    engine.submit(worker, [item(1, "talk", until=str(tmp_path / "stop"))])
    [started] = of(ItemStarted, collect(engine, heard(ItemStarted), PATIENCE_S))
    assert started.log is not None
    log = root / started.log.file
    until(lambda: log.exists() and "line 5\n" in log.read_text(), engine, "what it printed")
    (tmp_path / "stop").touch()
    [end] = of(ItemEnded, collect(engine, ended(1), PATIENCE_S))
    whole = log.read_bytes()[end.outcome.log.start : end.outcome.log.end].decode().splitlines()
    assert whole == [f"line {number}" for number in range(1, len(whole) + 1)]


def test_a_later_attempt_does_not_find_what_an_earlier_one_left_in_its_folder(
    engine: Any, root: Path, work: str
) -> None:
    worker = spawn(engine, work)
    engine.submit(worker, [item(1, "leave", names=["first"]), item(2, "leave", names=["first"])])
    collect(engine, ended(1, 2), PATIENCE_S)
    assert os.listdir(root / "items" / "t1") == ["first"]
    engine.submit(
        worker, [item(1, "leave", attempt=2, names=["second"]), item(2, "leave", attempt=2, names=[])]
    )
    collect(engine, ended(1, 2), PATIENCE_S)
    assert os.listdir(root / "items" / "t1") == ["second"]
    assert not (root / "items" / "t2").exists()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As on a full disk: in this process, writing to larger files fails. Ray and the workers are other processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_for_a_while_loses_nothing_and_ends_nothing(
    engine: Any, root: Path, work: str
) -> None:
    worker = spawn(engine, work)
    with no_file_larger_than(MIB):
        engine.submit(worker, [item(1, "large", bytes=3 * MIB)])
        until(lambda: engine._workers[worker].stuck_since is not None, engine, "a write that fails")
        give_up = time.monotonic() + 2
        while time.monotonic() < give_up:
            assert of(ItemEnded, engine.wait(0.1)) == []
    [end] = of(ItemEnded, collect(engine, ended(1), PATIENCE_S))
    assert end.outcome.state == "done"
    assert (root / "items" / "t1" / "state").stat().st_size == 3 * MIB


def test_a_disk_that_stays_full_ends_the_run_with_what_to_do(
    engine: Any, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.engine.ray import engine as module

    monkeypatch.setattr(module, "PATIENCE_S", 0.5)
    engine.submit(spawn(engine, work), [item(1, "large", bytes=3 * MIB)])
    full = pytest.raises(StoreError, match=r"cannot be written: File too large\.")
    with no_file_larger_than(MIB), full as error:
        collect(engine, ended(1), PATIENCE_S)
    assert "Make room" in str(error.value.hint)


def test_an_actor_that_hangs_in_its_start_is_killed_and_asked_only_once(
    engine: Any, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.engine.ray import engine as module
    from shoal.engine.ray import remote_worker as workers
    from shoal.engine.ray.actor import WorkerActor

    class Hanging(WorkerActor):
        def __init__(self, *arguments: Any) -> None:
            while True:
                time.sleep(0.1)

    monkeypatch.setattr(module, "WorkerActor", Hanging)
    monkeypatch.setattr(workers, "HEAR_S", 1.0)
    worker = spawn(engine, work)
    began = time.monotonic()
    engine.kill(worker)
    asked = engine._workers[worker]._kill
    for _ in range(20):  # As a pool does that looks at it again and again.
        engine.kill(worker)
        assert engine.wait(0.01) == []
    assert engine._workers[worker]._kill is asked, "each request would wait there"
    [gone] = of(WorkerLost, collect(engine, lost(worker), PATIENCE_S))
    assert (gone.cause, gone.running) == ("killed", None)
    assert time.monotonic() - began < 20
    assert "did not answer" in gone.why


def test_a_worker_that_cannot_be_started_says_why(
    engine: Any, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.engine.ray import engine as module
    from shoal.engine.ray.actor import WorkerActor

    class Locked(WorkerActor):
        def __init__(self, *arguments: Any) -> None:
            from shoal.engine.ray import folder_locks

            folder = f"/tmp/shoal-test-{os.getpid()}/r"
            held, hold = folder_locks.hold(folder, alone=True), folder_locks.hold
            folder_locks.hold = lambda *_, **__: hold(folder, patience_s=0.1)  # type: ignore[assignment]
            super().__init__(*arguments)
            held.close()
            folder_locks.remove_unused(folder)
            os.rmdir(os.path.dirname(folder))

    monkeypatch.setattr(module, "WorkerActor", Locked)
    worker = spawn(engine, work)
    [gone] = of(WorkerLost, collect(engine, lost(worker), PATIENCE_S))
    assert gone.cause == "start"
    assert "has been locked by another process for 0.1 s. See which one hangs" in gone.why


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S], ids=["an hour ahead", "an hour behind"])
def test_a_node_whose_clock_is_off_neither_times_out_at_once_nor_never(
    cluster: Any, root: Path, work: str, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    from shoal.engine.ray import engine as module
    from shoal.engine.ray.actor import WorkerActor
    from shoal.store import MemoryJournal

    class Elsewhere(WorkerActor):
        """On a node with another wall clock."""

        def __init__(self, *arguments: Any) -> None:
            import time

            right = time.time
            time.time = lambda: right() + off_s
            super().__init__(*arguments)

    class Two:
        """One item that is short and one that is too long."""

        def __init__(self) -> None:
            self._items = [item(1, "sleep", seconds=0.5, attempt=0), item(2, "sleep", seconds=60, attempt=0)]

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

    cluster.wait_until_free()
    monkeypatch.setattr(module, "WorkerActor", Elsewhere)
    made = module.RayEngine(str(root), folder=work)
    journal, began = MemoryJournal(), time.time()
    try:
        policy = Policy(timeout_s=3.0)
        Pool(made, journal, [Lane(Factory("mine:Trial", {}, {}, work), Need(), policy)], Two()).run()
    finally:
        made.close()
    took = time.time() - began
    short, long = (record for _, record in sorted(journal.records().items()))
    assert (short.state, long.state) == ("done", "failed")
    assert long.error == "timed out after 3.0s"
    assert 0.5 <= short.seconds < 2.5
    assert 3.0 <= long.seconds < 10
    assert all(began <= record.started <= began + took for record in (short, long))
