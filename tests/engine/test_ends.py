"""A command ends with its worker, politely first; what cannot be killed is said, and is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.engine.local.engine import LocalEngine
from shoal.engine.workers import process, zygote_client
from shoal.engine.workers.reporting import REPORT_VARIABLE
from shoal.engine.workers.runner import Cancelled, Work
from shoal.model import Factory, Item, ItemEnded, ItemStarted, Need, Node, WorkerLost, WorkerReady
from shoal.testing import collect
from shoal.testing.events import heard, of


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# Commands, run in this process.


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    monkeypatch.setenv(REPORT_VARIABLE, str(tmp_path / "reports"))
    monkeypatch.setattr(process, "TERM_S", 0.3)
    monkeypatch.chdir(tmp_path)
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield Work(1, 1, "t1", {}, None, report=lambda metrics, step: None, log_fd=log)
    os.close(log)


def cancel_once(exists: Path, work: Work) -> threading.Thread:
    def cancel() -> None:
        wait_until(exists.exists)
        work.cancelled = ("failed", "timed out")
        assert work.on_cancel is not None
        work.on_cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    return thread


POLITE = """
import os, signal, sys, time
def asked(*_):
    open("asked", "w").close()
    if sys.argv[1] == "polite":
        os._exit(0)
signal.signal(signal.SIGTERM, asked)
open("running", "w").write(str(os.getpid()))
while True:
    time.sleep(0.01)
"""


def test_a_command_is_asked_to_end_and_may_write_down_what_it_has(work: Work, tmp_path: Path) -> None:
    thread = cancel_once(tmp_path / "running", work)
    with pytest.raises(Cancelled):
        process.run_command([sys.executable, "-c", POLITE, "polite"], work)
    thread.join()
    assert (tmp_path / "asked").exists()


def test_a_command_that_does_not_end_when_it_is_asked_is_killed(work: Work, tmp_path: Path) -> None:
    thread = cancel_once(tmp_path / "running", work)
    with pytest.raises(Cancelled):
        process.run_command([sys.executable, "-c", POLITE, "stubborn"], work)
    thread.join()
    assert (tmp_path / "asked").exists()
    assert is_gone(int((tmp_path / "running").read_text()))
    assert (tmp_path / "log").read_text() == ""


def test_what_a_command_leaves_in_its_group_ends_with_it_though_it_has_no_parent(
    work: Work, tmp_path: Path
) -> None:
    process.run_command(["sh", "-c", "sleep 100 & echo $! > left"], work)
    wait_until(lambda: is_gone(int((tmp_path / "left").read_text())), 5)


# Engines.


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine([Node("here", 12, 1 << 34)], str(tmp_path / "run"))
    yield engine
    engine.close()


TREE = """
import os, subprocess, sys, time
if len(sys.argv) > 2:
    if sys.argv[2] == "away":
        os.setsid()
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
else:
    for kind in ("near", "away"):
        subprocess.Popen([sys.executable, __file__, sys.argv[1], kind])
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
time.sleep(100)
"""
"""A command that starts two more, one of which leaves its session. Each writes down its id."""


@pytest.fixture
def command(tmp_path: Path) -> Factory:
    (tmp_path / "pids").mkdir()
    (tmp_path / "tree.py").write_text(TREE)
    run = f"{sys.executable} {tmp_path}/tree.py {tmp_path}/pids"
    return Factory("shoal.work.sweep.trial:CommandTrial", {"command": run, "metrics": {}}, {}, str(tmp_path))


def pids(folder: Path) -> list[int]:
    return [int(path.name) for path in (folder / "pids").iterdir()]


def start(engine: LocalEngine, factory: Factory, *params: dict[str, Any]) -> int:
    worker = engine.spawn(factory, engine.reserve([Need()], None).places[0])
    engine.submit(worker, [Item(seq, f"t{seq}", given) for seq, given in enumerate(params, 1)])
    return worker


@pytest.mark.parametrize("killed", ["worker", "zygote"])
def test_nothing_of_a_command_is_left_when_the_end_of_its_worker_is_heard(
    engine: LocalEngine, command: Factory, tmp_path: Path, killed: str
) -> None:
    start(engine, command, {})
    wait_until(lambda: len(pids(tmp_path)) == 3)
    [zygote] = psutil.Process().children()
    [worker] = zygote.children()
    (worker if killed == "worker" else zygote).kill()
    [lost] = of(WorkerLost, collect(engine, heard(WorkerLost), 20))
    assert [pid for pid in pids(tmp_path) if not is_gone(pid)] == [], "a retry would run beside it"
    assert lost.running == (1, 0)


DRIVER = """
import json, sys
from shoal.engine.local.engine import LocalEngine
from shoal.model import *
engine = LocalEngine([Node("here", 2, 1 << 34)], sys.argv[1])
worker = engine.spawn(Factory(*json.loads(sys.argv[2])), engine.reserve([Need()], None).places[0])
engine.submit(worker, [Item(1, "t1", {})])
while True:
    for event in engine.wait(0.1):
        print(event, flush=True)
"""


def test_nothing_of_a_command_is_left_two_seconds_after_its_driver_was_killed(
    command: Factory, tmp_path: Path
) -> None:
    import json

    arguments = [str(tmp_path / "run"), json.dumps(command)]
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *arguments], stdout=subprocess.DEVNULL)
    wait_until(lambda: len(pids(tmp_path)) == 3)
    driver.kill()
    driver.wait()
    wait_until(lambda: all(is_gone(pid) for pid in pids(tmp_path)), 2)


def test_a_zygote_that_does_not_answer_is_replaced_like_a_dead_one(
    engine: LocalEngine, command: Factory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote_client, "PING_S", 0.2)
    monkeypatch.setattr(zygote_client, "SILENT_S", 0.5)
    start(engine, command, {})
    wait_until(lambda: len(pids(tmp_path)) == 3)
    collect(engine, heard(ItemStarted), 20)
    engine.wait(0.8)  # So that it has answered once.
    [zygote] = psutil.Process().children()
    zygote.suspend()
    [lost] = of(WorkerLost, collect(engine, heard(WorkerLost), 20))
    assert (lost.cause, lost.why) == (
        "node",
        "the process that starts workers did not answer, and was killed",
    )
    assert is_gone(zygote.pid)
    assert all(is_gone(pid) for pid in pids(tmp_path))
    start(engine, command)
    collect(engine, heard(WorkerReady), 20)


def test_time_in_which_the_driver_itself_was_suspended_is_not_held_against_a_zygote() -> None:
    client = zygote_client.ZygoteClient()
    try:
        now = time.monotonic()
        assert [client.is_silent(now + second) for second in range(8)] == [False] * 8
        assert client.receive() == []  # The answer to what it was asked meanwhile.
        psutil.Process(client.pid).suspend()
        assert [client.is_silent(now + 8 + second) for second in range(30)] == [False] * 30
        assert not client.is_silent(now + 1000)
        assert [client.is_silent(now + 1000 + second) for second in range(33)] == [False] * 31 + [True] * 2
    finally:
        psutil.Process(client.pid).resume()
        client.close()


def test_a_zygote_that_answers_is_left_alone_however_often_it_is_asked(
    engine: LocalEngine, command: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote_client, "PING_S", 0.05)
    monkeypatch.setattr(zygote_client, "SILENT_S", 0.2)
    start(engine, command)
    collect(engine, heard(WorkerReady), 20)
    monkeypatch.setattr("shoal.engine.local.engine.LOOK_S", 0.02)
    assert engine.wait(1.0) == []


def test_what_is_asked_of_a_zygote_that_does_not_read_is_not_waited_for_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zygote_client, "PATIENCE_S", 0.3)
    client = zygote_client.ZygoteClient()
    try:
        psutil.Process(client.pid).suspend()
        with pytest.raises(TimeoutError):
            any(client.kill(1) for _ in range(1_000_000))
    finally:
        client.close()


# Processes that cannot be killed: those of another user.


OTHER_USER = "setpriv --reuid 65534 --regid 65534 --clear-groups sleep 30"
MAY_NOT_KILL = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"]
"""Before a program that root runs: it may signal no process of another user, as anybody else may not."""
UNKILLABLE = """
import sys, time
from shoal.engine.local.engine import LocalEngine
from shoal.model import *
engine = LocalEngine([Node("here", 2, 1 << 34)], sys.argv[1])
factory = Factory(sys.argv[2], {"command": sys.argv[3], "metrics": {}}, {}, sys.argv[1])
worker = engine.spawn(factory, engine.reserve([Need()], None).places[0])
count = 1 if sys.argv[4] else 2
engine.submit(worker, [Item(seq, f"t{seq}", {}) for seq in range(count)])
ended = []
while len(ended) < count:
    for event in engine.wait(1):
        if type(event) is ItemStarted:
            time.sleep(0.3)  # Until it is another user's.
            if sys.argv[4] == "cancel":
                engine.cancel(worker, event.seq, event.attempt, "failed", "timed out")
            elif sys.argv[4] == "kill":
                engine.kill(worker)
        elif type(event) is ItemEnded:
            ended.append((event.outcome.state, event.outcome.error))
        elif type(event) is WorkerLost:
            ended.append(("lost", event.cause))
engine.close()
print(ended)
"""


@pytest.mark.root
@pytest.mark.parametrize(
    ("command", "act", "expected"),
    [
        (f"sh -c '{OTHER_USER} & sleep 0.3'", "", [("done", None)] * 2),
        (OTHER_USER, "cancel", [("failed", "timed out")]),
        (OTHER_USER, "kill", [("lost", "killed")]),
    ],
    ids=["left behind", "the command itself", "a killed worker"],
)
def test_a_process_that_cannot_be_killed_is_said_and_left(
    tmp_path: Path, command: str, act: str, expected: list[Any]
) -> None:
    before = set(psutil.pids())
    run = [str(tmp_path), "shoal.work.sweep.trial:CommandTrial", command, act]
    began = time.monotonic()
    done = subprocess.run(
        [*MAY_NOT_KILL, sys.executable, "-c", UNKILLABLE, *run], capture_output=True, text=True, timeout=60
    )
    took = time.monotonic() - began
    left = [each for each in psutil.process_iter() if each.pid not in before and each.name() == "sleep"]
    for each in left:
        each.kill()
    assert done.stdout == f"{expected}\n", done.stderr
    assert left
    assert took < 20, "it waited until they ended by themselves"
    said = done.stderr + "".join(path.read_text() for path in tmp_path.glob("logs/*.log"))
    for each in left:
        assert f"process {each.pid} (sleep) of user nobody cannot be ended; it was left" in said


def test_an_item_that_kills_the_process_above_is_found_out_and_the_others_are_not_blamed(
    engine: LocalEngine, tmp_path: Path
) -> None:
    (tmp_path / "runners.py").write_text(
        "import os, signal, time\n"
        "class Kill:\n"
        "    def run(self, work):\n"
        "        time.sleep(0.1)\n"
        "        if work.params['kills']:\n"
        "            os.kill(os.getppid(), signal.SIGKILL)\n"
        "        time.sleep(0.1)\n"
    )
    factory = Factory("runners:Kill", {}, {}, str(tmp_path))

    def run(items: dict[int, bool]) -> tuple[list[int], list[WorkerLost]]:
        """Each on a worker of its own: those that ended, and the workers that were lost."""
        for seq, kills in items.items():
            worker = engine.spawn(factory, engine.reserve([Need()], None).places[0])
            engine.submit(worker, [Item(seq, f"t{seq}", {"kills": kills})])
        told = collect(
            engine, lambda told: len(of(ItemEnded, told)) + len(of(WorkerLost, told)) == len(items), 20
        )
        return sorted(event.seq for event in of(ItemEnded, told)), of(WorkerLost, told)

    ended, lost = run({1: True, 2: False, 3: False})
    assert ended == []
    assert [event.cause for event in lost] == ["node"] * 3, "nobody knows whose doing it was"
    for _ in range(2):  # The second time is a retry: it is found out at once.
        ended, [guilty] = run({1: True, 2: False, 3: False})
        assert ended == [2, 3]
        assert (guilty.cause, guilty.running) == ("crash", (1, 0))
        assert guilty.why == "the process that starts workers was killed while only this item ran under it"
