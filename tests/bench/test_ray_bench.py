"""The benchmark of the Ray engine works, with small sizes. How fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.ray, pytest.mark.long]


def test_shoal_is_measured_against_tasks_and_the_ideal(tmp_path):
    command = [sys.executable, str(BENCH / "ray.py"), "--quick", "--json", "--only", "a,b"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert [figure["key"] for figure in figures] == ["a", "b"]
    assert figures[1]["value"] >= 1, "nothing is faster than the ideal"
    assert list(tmp_path.iterdir()) == []
