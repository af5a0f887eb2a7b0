"""Ctrl-C and SIGTERM: the run ends cleanly, says how to go on, and exits with 3; who follows its logs ends with it."""

from __future__ import annotations

import json
import signal
import time

import pytest


def until_asleep(tmp_path, process):
    """Until a trial has written that it sleeps."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if any("asleep" in path.read_text() for path in tmp_path.glob(".shoal/runs/*/logs/*.log")):
            return
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_stops_the_run_and_says_how_to_resume(start, shoal, sweep, tmp_path, number):
    sweep("long", ["ok", "sleep", "sleep", "sleep"])
    process = start("run", "long.yaml")
    until_asleep(tmp_path, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "Stopping" in err
    run = json.loads(shoal("ls", "--json").stdout)[0]
    assert run["state"] == "stopped"
    assert f"shoal resume {run['run']}" in err


def test_a_second_signal_kills_at_once(start, shoal, sweep, tmp_path):
    sweep("long", ["sleep"])
    trial = tmp_path / "trial.py"
    trial.write_text("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + trial.read_text())
    process = start("run", "long.yaml", "--json")
    until_asleep(tmp_path, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.6)  # Sooner, it would be the same signal, passed on.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "shoal resume long-" in err
    assert set(json.loads(out)) == {"error", "hint"}
    assert json.loads(shoal("ls", "--json").stdout)[0]["state"] == "interrupted"


def test_a_signal_that_is_passed_on_twice_is_not_a_second_one(start, sweep, tmp_path):
    sweep("long", ["sleep"])
    process = start("run", "long.yaml", "--json")
    until_asleep(tmp_path, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert json.loads(out)["state"] == "stopped"


def test_logs_follow_a_run_until_it_ends(start, shoal, sweep, tmp_path):
    sweep("long", ["sleep"])
    process = start("run", "long.yaml")
    until_asleep(tmp_path, process)
    follower = start("logs", "last", "-f")
    assert follower.stdout.readline() == "hello from 1\n"
    shoal("stop", "last")
    assert follower.wait(30) == 0
    process.wait(30)
