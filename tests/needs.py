"""What tests need, by marker: where it is missing they are skipped, and say what is. A skip without a marker fails.

A pytest plugin; `pyproject.toml` says what each marker means. `--must-pass ray,s3` fails a session in which no test
with one of these markers passed: a skip is not a pass.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

from testbed.requirements import why_not_here

MODULES = {"ray": "ray", "s3": "obstore", "hdfs": "hdfs_native", "spark": "pyspark", "torch": "torch"}
"""Markers, and the module without which a test that carries it cannot run."""
NEEDS = (*MODULES, "hosts", "root", "user", "machine")


def missing(need: str) -> str | None:
    """Why a test that needs this cannot run here; `None`: it may try."""
    if need in MODULES and find_spec(MODULES[need]) is None:
        return f"the extra `{need}` is not installed: make test-all installs it"
    if need == "spark" and shutil.which("java") is None:
        return "there is no Java"
    if need == "root" and os.geteuid() != 0:
        return "needs root"
    if need == "user" and os.geteuid() == 0:
        return "root may read and write everything"
    return why_not_here() if need == "hosts" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of the test, which would start hosts or servers."""
    for need in NEEDS:
        if item.get_closest_marker(need) is not None and (reason := missing(need)) is not None:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not any(item.get_closest_marker(need) for need in NEEDS):
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"It skips ({said}), and has no marker of what it needs: {', '.join(NEEDS)}."
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--must-pass", default="", help="markers of which at least one test each has to pass")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # Workers of xdist report to the session that counts.
        config.pluginmanager.register(Passed(config.getoption("--must-pass")), "passed")


class Passed:
    """Which of the markers that have to pass did not; ends the session with an error if there is one."""

    def __init__(self, markers: str) -> None:
        self.missing = {name for name in markers.split(",") if name}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.missing -= report.keywords.keys()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name in sorted(self.missing):
            terminalreporter.write_line(f"FAILED: no test marked `{name}` passed, and one has to.", red=True)
