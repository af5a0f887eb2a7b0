"""Which tests run, and what counts as a pass: the suite's own plugins, in a small suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CONFTEST = """
import pytest
from needs import NEEDS
pytest_plugins = ["needs", "shards"]
def pytest_configure(config):
    for need in NEEDS:
        config.addinivalue_line("markers", need)
"""
SKIPS = """
import pytest
def test_without_a_marker():
    pytest.skip("no luck")
@pytest.mark.machine
def test_with_a_marker():
    pytest.skip("no luck")
@pytest.mark.WHO
def test_that_passes():
    pass
"""
WHO = "root" if os.geteuid() == 0 else "user"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A suite of three files, of which one skips."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_skips.py").write_text(SKIPS.replace("WHO", WHO))
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text("def test_one():\n    pass\ndef test_two():\n    pass\n")
    return tmp_path


def ran(small: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code, what was said, and the tally."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tally", "tally", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "COLUMNS": "200",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        command, cwd=small, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, (small / "tally").read_text().strip()


def test_a_skip_without_a_marker_fails_and_what_must_pass_has_to(small: Path) -> None:
    code, said, tally = ran(small, "--must-pass", f"{WHO},machine")
    assert code == 1
    assert "test_without_a_marker FAILED" in said
    assert "It skips (Skipped: no luck), and has no marker of what it needs: ray, " in said
    assert "test_with_a_marker SKIPPED" in said
    assert "FAILED: no test marked `machine` passed, and one has to." in said
    assert f"marked `{WHO}` passed" not in said
    assert tally == "5 passed, 1 failed, 1 skipped"


def test_what_must_pass_fails_a_session_of_skips(small: Path) -> None:
    only_skips = "test_skips.py::test_with_a_marker"
    assert ran(small, only_skips)[0] == 0
    assert ran(small, only_skips, "--must-pass", "machine")[0] == 1


def test_shards_are_whole_files_and_together_all_of_them(small: Path) -> None:
    first, second = (ran(small, "--shard", f"{part}/2", "-k", "one or two") for part in (1, 2))
    assert [first[0], second[0]] == [0, 0]
    assert "test_a.py::test_one PASSED" in first[1]
    assert "test_a.py::test_two PASSED" in first[1]
    assert "test_b.py::test_two PASSED" in second[1]
    assert first[2] == second[2] == "2 passed, 0 failed, 0 skipped, 2 left to other shards"
    assert ran(small, "--shard", "3/2")[0] == pytest.ExitCode.USAGE_ERROR
