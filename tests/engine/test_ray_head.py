"""The head of a Ray cluster is lost in the middle of a run: nothing hangs, and the run can be resumed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.long,
    pytest.mark.always,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

TRIAL = """
import time, pathlib
def main(x):
    with open("LOG", "a") as file:
        file.write(f"{x}\\n")
    time.sleep(0.2)
    while x >= 30 and not pathlib.Path("GO").exists():
        time.sleep(0.05)
    return {"y": 2 * x}
"""


def shoal(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "shoal", *arguments]


def test_a_run_whose_cluster_lost_its_head_ends_soon_and_can_be_resumed(
    unconnected: Callable[..., Any], tmp_path: Path
) -> None:
    log, go = tmp_path / "log.txt", tmp_path / "go.txt"
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "trial.py").write_text(TRIAL.replace("LOG", str(log)).replace("GO", str(go)))
    (tmp_path / ".shoalignore").write_text("*.txt\n")
    (tmp_path / "sweep.yaml").write_text(
        f"kind: sweep\nname: headless\ntrials: {{grid: {{x: {list(range(40))}}}}}\nrun: {{function: 'trial:main'}}\n"
    )

    def name_cluster(cluster: Any) -> None:
        text = f"kind: cluster\nname: lab\nprovider: ray\naddress: '{cluster.address}'\n"
        (tmp_path / "lab.yaml").write_text(text)

    first = unconnected(2)
    name_cluster(first)
    driver = subprocess.Popen(
        shoal("run", "sweep.yaml", "--cluster", "lab.yaml"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        first.until(lambda: log.exists() and {"30", "31"} <= set(log.read_text().split()))
        first.lose_head()
        began = time.monotonic()
        _, said = driver.communicate(timeout=55)
        assert time.monotonic() - began < 50, "before Ray ends the process by itself"
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 1, said
    assert "has not answered" in said
    assert "Traceback" not in said
    [run] = json.loads(subprocess.check_output(shoal("ls", "--json"), cwd=tmp_path))
    assert run["state"] == "interrupted"
    assert f"shoal resume {run['run']}" in said
    shown = json.loads(subprocess.check_output(shoal("show", run["run"], "--json"), cwd=tmp_path))
    assert {entry["state"] for entry in shown["items"]} == {"done", "waiting"}
    first.close()

    name_cluster(unconnected(2))
    go.touch()
    subprocess.run(shoal("resume", run["run"]), cwd=tmp_path, check=True, timeout=100, capture_output=True)
    rows = json.loads(subprocess.check_output(shoal("results", run["run"], "--format", "json"), cwd=tmp_path))
    assert sorted(row["y"] for row in rows) == [2 * x for x in range(40)]
    assert {row["state"] for row in rows} == {"done"}
    assert {row["attempt"] for row in rows} == {1}, "the loss of the head used no attempt"
    assert len(log.read_text().split()) == 42, "what was done is not done again"
