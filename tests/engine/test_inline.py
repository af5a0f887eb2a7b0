"""The engine for debugging keeps the contract, but for what takes processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.base import Engine
from shoal.engine.inline.engine import InlineEngine
from shoal.engine.local.leases import Leases, table_path
from shoal.model import Factory, Item, ItemEnded, ItemProgressed, Need, Node, WorkerLost
from shoal.testing import EngineContract, collect
from shoal.testing.events import ended, heard, of


def engine_at(folder: Path, nodes: Sequence[Node]) -> InlineEngine:
    return InlineEngine(nodes, str(folder), Leases(nodes, "machine", table_path()))


class TestInlineEngine(EngineContract, isolated=False):
    quiet_s = 0.05  # Nothing happens here but in `wait`.

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_engine(self, nodes: Sequence[Node]) -> Engine:
        return engine_at(self.folder / "run", nodes)

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        return self.make_engine(nodes), engine_at(self.folder / "other", nodes)

    def leftovers(self, engine: Engine) -> list[str]:
        with open(os.environ["SHOAL_LEASES"]) as file:
            return [f"lease {name}" for name, entry in json.load(file).items() if entry["places"]]


RUNNERS = """
import os, signal, subprocess, sys
from shoal.engine.workers.process import find_python_first, run_command
import shoal

class Nosy:
    def __init__(self):
        os.environ["MADE"] = "once"
    def run(self, work):
        import beside
        os.environ["LEFT"] = "behind"
        os.chdir("/")
        work.params["list"].append(3)
        print("printed", work.id)
        shoal.report(step=1, early=1)
        return {"env": os.environ["GIVEN"], "made": os.environ["MADE"], "beside": beside.VALUE,
                "folder": os.environ["SHOAL_ITEM_DIR"]}

class Interrupted:
    def run(self, work):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            return {"heard": True}

class Command:
    def __init__(self):
        find_python_first()
    def run(self, work):
        run_command(["python", "-c", "import sys; print('said', repr(sys.stdin.read()))"], work)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[InlineEngine]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "runners.py").write_text(RUNNERS)
    (tmp_path / "work" / "beside.py").write_text("VALUE = 1")
    engine = engine_at(tmp_path / "run", [Node("here", 2, 1 << 34)])
    yield engine
    engine.close()


def start(engine: InlineEngine, tmp_path: Path, runner: str, *items: Item) -> int:
    factory = Factory(f"runners:{runner}", {}, {"GIVEN": "this"}, str(tmp_path / "work"))
    worker = engine.spawn(factory, engine.reserve([Need()], None).places[0])
    engine.submit(worker, items)
    return worker


def surroundings() -> list[Any]:
    return [
        dict(os.environ),
        os.getcwd(),
        list(sys.path),
        sys.stdout,
        sys.stderr,
        signal.getsignal(signal.SIGINT),
    ]


def test_an_item_has_what_a_worker_has_and_the_process_gets_its_own_back(
    engine: InlineEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    params = {"list": [1, 2]}
    before = surroundings()
    worker = start(engine, tmp_path, "Nosy", Item(1, "t1", params), Item(2, "t2", params))
    events = collect(engine, ended(1, 2), 20)
    assert surroundings() == before
    assert params == {"list": [1, 2]}, "an item changed what the driver has"
    assert [(event.step, event.metrics) for event in of(ItemProgressed, events)] == [(1, {"early": 1})] * 2
    first, second = [event.outcome for event in of(ItemEnded, events)]
    assert first.metrics == {
        "early": 1,
        "env": "this",
        "made": "once",
        "beside": 1,
        "folder": str(tmp_path / "run" / "items" / "t1"),
    }
    assert first.log is not None
    assert second.log is not None
    log = (tmp_path / "run" / first.log.file).read_bytes()
    assert log[second.log.start : second.log.end] == b"printed t2\n"
    assert capfd.readouterr().out == "printed t1\nprinted t2\n"
    engine.end(worker)
    collect(engine, heard(WorkerLost), 20)
    assert not {"runners", "beside"} & sys.modules.keys(), "the next run would find the modules of this one"


def test_the_traceback_of_an_item_is_on_stderr_and_in_its_log(
    engine: InlineEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start(engine, tmp_path, "Nosy", Item(1, "t1", {}))
    [end] = of(ItemEnded, collect(engine, ended(1), 20))
    assert (end.outcome.state, end.outcome.error) == ("failed", "KeyError: 'list' (runners.py:13)")
    told = capfd.readouterr().err
    assert 'work.params["list"].append(3)' in told
    assert end.outcome.log is not None
    assert told == (tmp_path / "run" / end.outcome.log.file).read_text()


def test_an_interrupt_ends_the_item_as_stopped_after_the_driver_has_heard_it(
    engine: InlineEngine, tmp_path: Path
) -> None:
    heard_first: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard_first.append(number))
    try:
        start(engine, tmp_path, "Interrupted", Item(1, "t1", {}))
        [end] = of(ItemEnded, collect(engine, ended(1), 20))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (end.outcome.state, end.outcome.error) == ("stopped", "the run was stopped")
    assert heard_first == [signal.SIGINT]


def test_a_command_is_a_process_without_input_whose_output_is_kept_and_shown_and_which_takes_no_others_along(
    engine: InlineEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, typed = os.dup(0), os.memfd_create("typed")
    os.pwrite(typed, b"for the debugger", 0)
    with subprocess.Popen(["sleep", "60"]) as other:
        start(engine, tmp_path, "Command", Item(1, "t1", {}))
        try:
            os.dup2(typed, 0)
            [end] = of(ItemEnded, collect(engine, ended(1), 20))
        finally:
            os.dup2(ours, 0)
            os.close(ours)
            os.close(typed)
        assert other.poll() is None, "a child of the driver's own was killed"
        other.kill()
    assert end.outcome.state == "done", end.outcome.error
    assert end.outcome.log is not None
    assert (tmp_path / "run" / end.outcome.log.file).read_text() == "said ''\n"
    assert capfd.readouterr().out == "said ''\n"
