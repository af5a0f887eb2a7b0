"""`shoal run FILE --inline`: debuggers, tracebacks and Ctrl-C work as in any script, and all is recorded."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from shoal.cli import main

from .conftest import command, environment

FUNCTION = """\
import os
import sys
import time

def train(x):
    double = 2 * x
    {middle}
    print("trained", x)
    return {{"score": double}}
"""
WORKLOAD = """\
kind: sweep
name: tune
trials: {grid: {x: [1, 2, 3]}}
run: {function: "model:train"}
"""


@pytest.fixture
def workload(tmp_path):
    """Writes a sweep of three trials whose function has this line in its middle."""

    def write(middle: str = "pass") -> None:
        (tmp_path / "model.py").write_text(FUNCTION.format(middle=middle))
        (tmp_path / "tune.yaml").write_text(WORKLOAD)

    return write


def scores(shoal):
    rows = json.loads(shoal("results", "last", "--format", "json").stdout)
    return {row["x"]: (row["state"], row.get("score")) for row in rows}


def test_items_run_one_at_a_time_in_this_process_and_an_exception_fails_its_item_alone(
    shoal, workload, tmp_path
):
    workload('open("pids", "a").write(f"{os.getpid()}\\n"); assert x != 2, "two is wrong"')
    done = shoal("run", "tune.yaml", "--inline", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"] == "failed", "what items print is not among the results"
    assert scores(shoal) == {1: ("done", 2), 2: ("failed", None), 3: ("done", 6)}
    assert "trained 3" in done.stderr
    assert "Traceback (most recent call last)" in done.stderr
    assert "failed: t0002 on" in done.stderr
    assert "AssertionError: two is wrong (model.py:7)" in done.stderr
    log = shoal("logs", "last").stdout
    assert (log.count("trained"), log.count("Traceback")) == (2, 1)
    pids = (tmp_path / "pids").read_text().splitlines()
    assert (len(pids), len(set(pids))) == (3, 1)
    assert not list(tmp_path.glob(".shoal/runs/*/items/*"))


def test_a_breakpoint_in_a_function_asks_at_the_terminal_and_can_change_what_it_sees(
    shoal, workload, tmp_path
):
    workload("breakpoint() if x == 2 else None")
    ours, terminal = pty.openpty()
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    process = subprocess.Popen(
        command("run", "tune.yaml", "--inline"), cwd=tmp_path, env=environment(tmp_path), **streams
    )
    os.close(terminal)
    said = b""
    try:
        for answer in (b"next", b"print('seen', double)", b"double = 40", b"continue"):
            while not said.endswith(b"(Pdb) "):
                said += os.read(ours, 1 << 16)
            os.write(ours, answer + b"\n")
            said += os.read(ours, 1 << 16)
        with suppress(OSError):  # That is how a terminal says that nobody has it any more.
            while block := os.read(ours, 1 << 16):
                said += block
        assert process.wait(30) == 0
    finally:
        process.kill()
        os.close(ours)
    assert b"seen 4" in said
    assert scores(shoal)[2] == ("done", 40)


def test_a_debugger_around_the_command_stops_at_breakpoints_in_functions(shoal, workload, tmp_path):
    workload()
    arguments = [
        "-m",
        "pdb",
        "-c",
        "break model.py:8",
        "-c",
        "continue",
        *command("run", "tune.yaml", "--inline")[1:],
    ]
    done = subprocess.run(
        [sys.executable, *arguments],
        input="print('seen', double)\ncontinue\ncontinue\ncontinue\nquit\n",
        cwd=tmp_path,
        env=environment(tmp_path) | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "seen 2" in done.stdout + done.stderr, done.stdout + done.stderr
    assert scores(shoal) == {1: ("done", 2), 2: ("done", 4), 3: ("done", 6)}


def test_ctrl_c_ends_the_item_that_runs_and_stops_the_run(start, shoal, workload, tmp_path):
    workload('x == 2 and (open("asleep", "w"), time.sleep(60))')
    process = start("run", "tune.yaml", "--inline")
    deadline = time.monotonic() + 30
    while not (tmp_path / "asleep").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert "shoal resume tune-" in err
    assert "stopped" in {state for state, _ in scores(shoal).values()}
    workload()
    assert shoal("resume", "last").returncode == 0
    assert {state for state, _ in scores(shoal).values()} == {"done"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster=c.yaml"], "in this process, or on the nodes of a cluster"),
        (["--detach"], "in this process, or is handed to a cluster"),
        (["--set=requirements=[shoal-of-nothing]"], "requirements: shoal-of-nothing: not installed"),
    ],
    ids=["a cluster", "detached", "packages"],
)
def test_what_cannot_run_in_this_process_is_refused(workload, tmp_path, monkeypatch, capsys, options, words):
    workload()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "tune.yaml", "--inline", *options]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / ".shoal" / "runs").exists()
