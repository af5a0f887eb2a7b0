"""The embedded engine keeps the contract, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.engine.base import Engine
from shoal.engine.local.engine import LocalEngine
from shoal.engine.local.leases import numbered
from shoal.engine.workers import zygote_client
from shoal.model import Factory, Item, ItemEnded, ItemStarted, Need, Node, WorkerLost, WorkerReady
from shoal.testing import EngineContract, collect
from shoal.testing.events import heard, of


class TestLocalEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_engine(self, nodes: Sequence[Node]) -> Engine:
        return LocalEngine(nodes, str(self.folder / "run"))

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        return self.make_engine(nodes), LocalEngine(nodes, str(self.folder / "other"))

    def leftovers(self, engine: Engine) -> list[str]:
        processes = [process.name() for process in psutil.Process().children(recursive=True)]
        with open(numbered(os.environ["SHOAL_LEASES"])) as file:
            leases = [f"lease {name}" for name, entry in json.load(file).items() if entry["holds"]]
        return processes + leases


RUNNERS = """
import multiprocessing, os, subprocess, sys, time

class Orphans:
    \"\"\"Starts a process that leaves its group and its session, says its id, then does what the item asks.\"\"\"

    def run(self, work):
        code = "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(100)"
        subprocess.Popen([sys.executable, "-c", code, work.params["tell"]])
        while not os.path.exists(work.params["tell"]) or not open(work.params["tell"]).read():
            time.sleep(0.01)
        if work.params.get("stay"):
            time.sleep(100)
        os._exit(5)

class Leave:
    def run(self, work):
        while not os.path.exists(work.params["when"]):
            time.sleep(0.01)
        os._exit(5)

class Hoard:
    def run(self, work):
        block = bytearray(work.params["bytes"])
        return {"size": len(block)}

class Path:
    def run(self, work):
        import queue, types, mine
        return {"queue": queue.__file__, "types": types.__file__, "mine": mine.__file__}
"""


@pytest.fixture
def runners(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "runners.py").write_text(RUNNERS)
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine([Node("here", 2, 1 << 34)], str(tmp_path / "run"))
    yield engine
    engine.close()


def start(engine: LocalEngine, folder: Path, runner: str, items: Sequence[Item], **need: Any) -> int:
    place = engine.reserve([Need(**need)], None).places[0]
    worker = engine.spawn(Factory(f"runners:{runner}", {}, {}, str(folder)), place)
    engine.submit(worker, items)
    return worker


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_that_left_its_session_is_ended_with_the_worker_that_started_it(
    engine: LocalEngine, runners: Path, tmp_path: Path
) -> None:
    tell = tmp_path / "pid"
    start(engine, runners, "Orphans", [Item(1, "t1", {"tell": str(tell)})])
    [lost] = of(WorkerLost, collect(engine, heard(WorkerLost), 20))
    assert (lost.cause, lost.running) == ("crash", (1, 0))
    assert lost.why == "the process exited with status 5"
    wait_until(lambda: is_gone(int(tell.read_text())))


def test_killing_a_worker_ends_everything_it_started(
    engine: LocalEngine, runners: Path, tmp_path: Path
) -> None:
    tell = tmp_path / "pid"
    worker = start(engine, runners, "Orphans", [Item(1, "t1", {"tell": str(tell), "stay": True})])
    wait_until(lambda: tell.exists() and tell.read_text())
    engine.kill(worker)
    collect(engine, heard(WorkerLost), 20)
    wait_until(lambda: is_gone(int(tell.read_text())))


DRIVER = """
import sys, time
from shoal.engine.workers import zygote_client as spawning
from shoal.engine.local.engine import LocalEngine
from shoal.engine.local.leases import numbered
from shoal.model import *
engine = LocalEngine([Node("here", 2, 1 << 34)], sys.argv[1])
worker = engine.spawn(Factory("runners:Orphans", {}, {}, sys.argv[2]), engine.reserve([Need()], None).places[0])
engine.submit(worker, [Item(1, "t1", {"tell": sys.argv[3], "stay": True})])
while True:
    engine.wait(1)
"""


def test_nothing_outlives_a_driver_that_was_killed(runners: Path, tmp_path: Path) -> None:
    tell = tmp_path / "pid"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path / "run"), str(runners), str(tell)])
    wait_until(lambda: tell.exists() and tell.read_text())
    family = psutil.Process(driver.pid).children(recursive=True)
    assert len(family) >= 3
    driver.kill()
    driver.wait()
    wait_until(lambda: all(is_gone(process.pid) for process in family))


def test_an_engine_goes_on_after_the_process_that_starts_workers_was_killed(
    engine: LocalEngine, runners: Path
) -> None:
    start(engine, runners, "Hoard", [])
    collect(engine, heard(WorkerReady), 20)
    zygote = psutil.Process().children()[0]
    zygote.kill()
    [lost] = of(WorkerLost, collect(engine, heard(WorkerLost), 20))
    assert lost.cause == "node", "nobody knows whose doing it was"
    start(engine, runners, "Hoard", [Item(1, "t1", {"bytes": 10})])
    [ended] = of(ItemEnded, collect(engine, heard(ItemEnded), 20))
    assert ended.outcome.metrics == {"size": 10}


def test_memory_beyond_the_limit_fails_the_item_and_not_the_worker(
    engine: LocalEngine, runners: Path
) -> None:
    items = [Item(1, "t1", {"bytes": 1 << 30}), Item(2, "t2", {"bytes": 1 << 20})]
    start(engine, runners, "Hoard", items, memory_bytes=256 << 20)
    first, second = of(ItemEnded, collect(engine, heard(ItemEnded, 2), 20))
    assert first.outcome.state == "failed"
    assert "out of memory" in str(first.outcome.error)
    assert second.outcome.state == "done"


def test_a_folder_cannot_shadow_the_standard_library(engine: LocalEngine, runners: Path) -> None:
    for name in ("queue.py", "types.py", "json.py", "mine.py"):
        (runners / name).write_text("broken = 1/0" if name != "mine.py" else "")
    start(engine, runners, "Path", [Item(1, "t1", {})])
    [ended] = of(ItemEnded, collect(engine, heard(ItemEnded), 20))
    assert ended.outcome.state == "done", ended.outcome.error
    assert ended.outcome.metrics["mine"] == str(runners / "mine.py")


def test_workers_get_as_many_threads_as_they_have_cpus(engine: LocalEngine, runners: Path) -> None:
    (runners / "env.py").write_text(
        "import os\nclass Env:\n def run(self, work):\n  return {'threads': os.environ['OMP_NUM_THREADS']}\n"
    )
    place = engine.reserve([Need(cpu=2)], None).places[0]
    engine.submit(engine.spawn(Factory("env:Env", {}, {}, str(runners)), place), [Item(1, "t1", {})])
    [ended] = of(ItemEnded, collect(engine, heard(ItemEnded), 20))
    assert ended.outcome.metrics == {"threads": os.environ.get("OMP_NUM_THREADS", "2")}


def test_what_is_sent_to_a_worker_that_is_gone_is_dropped_until_its_end_is_heard(
    engine: LocalEngine, runners: Path, tmp_path: Path
) -> None:
    worker = start(engine, runners, "Leave", [Item(1, "t1", {"when": str(tmp_path / "go")})])
    collect(engine, heard(ItemStarted), 20)
    [zygote] = psutil.Process().children()
    [process] = zygote.children()
    zygote.suspend()  # So that the end of the worker is not heard before more is sent to it.
    try:
        (tmp_path / "go").touch()
        wait_until(lambda: is_gone(process.pid))
        engine.wait(0.05)
        engine.submit(worker, [Item(2, "t2", {})])
        engine.recall(worker)
    finally:
        zygote.resume()
    [lost] = of(WorkerLost, collect(engine, heard(WorkerLost), 20))
    assert (lost.cause, lost.running) == ("crash", (1, 0))


def test_closing_does_not_wait_for_ever_for_a_process_that_somebody_suspended(
    engine: LocalEngine, runners: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote_client, "PATIENCE_S", 0.2)
    start(engine, runners, "Hoard", [])
    collect(engine, heard(WorkerReady), 20)
    family = psutil.Process().children(recursive=True)
    family[0].suspend()
    engine.close()
    wait_until(lambda: all(is_gone(process.pid) for process in family))
