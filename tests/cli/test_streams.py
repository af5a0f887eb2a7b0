"""Streams that are closed or full, and signals at the worst moment: a sentence and the right exit code all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest


def in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `shoal` is the real command."""
    import sys

    shoal = f"{sys.executable} -m shoal"
    environment = {**os.environ, "SHOAL_LEASES": str(folder / "leases")}
    return subprocess.run(
        ["sh", "-c", line.replace("shoal", shoal, 1)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_run_whose_streams_are_closed_ends_well(sweep, tmp_path, closed):
    sweep("good", ["ok", "ok"])
    done = in_shell(tmp_path, f"shoal run good.yaml {closed}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    [results] = (tmp_path / ".shoal" / "runs").glob("*/results.csv")
    assert results.read_text().count("done") == 2


def test_json_that_cannot_be_written_is_said_on_stderr(sweep, tmp_path):
    sweep("good", ["ok"])
    in_shell(tmp_path, "shoal run good.yaml")
    done = in_shell(tmp_path, "shoal ls --json > /dev/full")
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_at_any_moment_leaves_no_run_without_a_word(start, sweep, tmp_path, number):
    """From before the run is made until its first trials run: either there is no run, or it was stopped cleanly."""
    sweep("slow", ["sleep", "sleep"])
    for delay in (0.06, 0.1, 0.15, 0.2, 0.3, 0.5):
        before = set((tmp_path / ".shoal").glob("runs/*"))
        process = start("run", "slow.yaml")
        time.sleep(delay)  # A moment, not a condition: which one it hits is the point.
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        new = [path for path in (tmp_path / ".shoal").glob("runs/*") if path not in before]
        assert "Traceback" not in told or not new
        for run in new:
            assert process.returncode == 3, told
            assert f"shoal resume {run.name}" in told
