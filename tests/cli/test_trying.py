"""An inference that is only tried, measured or gone on with: what an earlier run wrote stays, and is counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.loud import write_loud
from shoal.api import workloads
from shoal.api.display.board import Board
from shoal.api.machines import machines
from shoal.api.runs import new_session, resume
from shoal.api.session import Session
from shoal.cluster.this_machine import Here


@pytest.fixture(autouse=True)
def _workload(tmp_path: Path) -> None:
    write_loud(tmp_path)


def test_a_run_with_a_limit_does_not_replace_what_a_whole_run_wrote(
    shoal: Callable[..., Any], tmp_path: Path
) -> None:
    run = json.loads(shoal("run", "loud.yaml", "--json").stdout)["run"]
    refused = shoal("run", "loud.yaml", "--limit", "2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"out holds what run {run} wrote, which had no --limit." in refused.stderr
    assert "--set output.path=" in refused.stderr
    assert shoal("results", run, "--format", "csv").stdout.count("\n") == 13
    assert [each["run"] for each in json.loads(shoal("ls", "--json").stdout)] == [run]
    for limit in (2, 4):
        tried = shoal("run", "loud.yaml", "--limit", str(limit), "--set", "output={path: tried/}", "--json")
        assert json.loads(tried.stdout)["infer"]["rows"] == limit
    assert shoal("run", "loud.yaml", "--set", "output={path: tried/}").returncode == 0


def test_a_probe_says_what_became_of_its_output(shoal: Callable[..., Any], tmp_path: Path) -> None:
    run = json.loads(shoal("run", "loud.yaml", "--json").stdout)["run"]
    probed = shoal("plan", "loud.yaml", "--probe")
    assert probed.returncode == 0, probed.stderr
    assert re.search(
        r"^Measured with \d+ done.*, in an output of their own that is gone again\.$", probed.stderr, re.M
    )
    assert re.search(r"^predicted: [\d.]+m?s", probed.stdout, re.M)
    assert shoal("results", run, "--format", "csv").stdout.count("\n") == 13
    assert not list(tmp_path.glob("*probe*"))


@pytest.mark.long
def test_a_resumed_inference_says_how_many_items_were_done_before(
    shoal: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class After:
        """Stops a session once so many items are done."""

        def __init__(self, session: Session, count: int) -> None:
            self.session, self.left = session, count
            session.watch(self)

        def durable(self, ended: Any) -> None:
            self.left -= len(ended)
            if self.left <= 0:
                self.session.stop()

        def moment(self, progress: Any) -> None: ...

    monkeypatch.chdir(tmp_path)
    sets = ["tune={item: 2, workers: 1}", "limits.concurrent=1", "model.function=loud:Slow"]
    session = new_session(workloads.from_file("loud.yaml", sets, None), machines(None), Here())
    After(session, 1)
    done = session.drive().items["done"]
    again = resume(session.store.run)
    assert isinstance(again, Session)
    info = again.store.info()
    board = Board.of(info, None, again.store)
    assert board.of_total == f"{2 * done} inputs"
    After(again, 1)
    done = again.drive().items["done"]
    assert 2 <= done < 6
    said = shoal("resume", session.store.run).stderr.splitlines()[0]
    assert said == f"{session.store.run}: inference, {done} items done before"
