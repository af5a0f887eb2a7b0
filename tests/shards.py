"""Parts of the suite for CI, and how many tests ended how. A pytest plugin.

`--shard 3/5` runs the third of five parts: whole files, in turn by name, so that what a module starts is started
once. `--tally FILE` keeps the counts in a file that is right at any moment, though the session is killed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

LEFT = pytest.StashKey[int]()
"""How many tests other parts have."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", metavar="K/N", help="run the K-th of N parts, counted from 1")
    parser.addoption("--tally", metavar="FILE", type=Path, help="keep there how many tests ended how")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After `-m` has chosen: the parts are of what is to run."""
    if not (shard := config.getoption("--shard")):
        return
    part, parts = map(int, shard.split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--shard K/N: 1 <= K <= N must hold, but got {shard}")
    files = sorted({item.path for item in items})
    ours = set(files[part - 1 :: parts])
    others = [item for item in items if item.path not in ours]
    items[:] = [item for item in items if item.path in ours]
    config.hook.pytest_deselected(items=others)
    config.stash[LEFT] = len(others)


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("--tally")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tally(file, config), "tally")


class Tally:
    """The counts of a session."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file, self._config = file, config
        self._counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._counts[report.outcome] += 1
            self._write()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._counts[report.outcome] += 1
            self._write()

    def _write(self) -> None:
        left = self._config.stash.get(LEFT, 0)
        words = [f"{self._counts[each]} {each}" for each in ("passed", "failed", "skipped")]
        self._file.write_text(", ".join([*words, *([f"{left} left to other shards"] if left else [])]) + "\n")
