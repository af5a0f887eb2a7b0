"""Servers of tests end with the tests, and are started again where somebody was faster with their ports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers.processes import NotStarted, retried

OWNER = """
import sys
from pathlib import Path
from servers.processes import server
with server("sleeper", ["sleep", "1000"], Path(sys.argv[1]), lambda: True) as process:
    print(process.pid, flush=True)
    sys.stdin.read()
"""


def test_a_server_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
        owner.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)


@pytest.mark.parametrize(("failures", "starts"), [(0, 1), (2, 3)])
def test_a_start_that_fails_is_tried_again(failures: int, starts: int) -> None:
    begun: list[int] = []

    @contextmanager
    def start() -> Iterator[str]:
        begun.append(1)
        if len(begun) <= failures:
            raise NotStarted("the port is taken")
        yield "here"

    with retried(start) as found:
        assert found == "here"
    assert len(begun) == starts


def test_a_start_that_always_fails_is_told() -> None:
    @contextmanager
    def start() -> Iterator[None]:
        raise NotStarted("the port is taken")
        yield

    with pytest.raises(NotStarted, match="the port is taken"), retried(start):
        pass
