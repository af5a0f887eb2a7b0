"""The lock of a run: one holder, known by name, gone with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.errors import RunLocked, SpecError
from shoal.store import RunLock, is_locked
from shoal.store.driver import owner

HOLD = """
import sys
from shoal.store import RunLock
lock = RunLock.take(sys.argv[1], run="x-0000", now=5.0)
print("locked", flush=True)
sys.stdin.read()
"""
FORK = """
import os, sys
from shoal.store import RunLock
lock = RunLock.take(sys.argv[1], run="x-0000", now=5.0)
if os.fork() == 0:
    print("locked", os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.wait()
"""
FIGHT = """
import sys
from shoal.errors import RunLocked
from shoal.store import RunLock
print("ready", flush=True)
sys.stdin.readline()
try:
    lock = RunLock.take(sys.argv[1], run="x-0000", now=5.0)
except RunLocked:
    print("refused", flush=True)
else:
    print("taken", flush=True)
sys.stdin.read()
"""
ASK = """
import sys
from shoal.store import is_locked
print("ready", flush=True)
while True:
    is_locked(sys.argv[1])
"""


@contextmanager
def process(script: str, path: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def test_a_lock_is_held_until_it_is_released(path: str) -> None:
    assert not is_locked(path)
    lock = RunLock.take(path, run="x-0000", now=5.0)
    assert is_locked(path)
    lock.release()
    lock.release()
    assert not is_locked(path)


def test_another_process_is_refused_and_told_who_has_it(path: str) -> None:
    with process(HOLD, path) as holder:
        assert line(holder) == "locked"
        assert is_locked(path)
        with pytest.raises(RunLocked, match=f"process {holder.pid} on {os.uname().nodename}"):
            RunLock.take(path, run="x-0000", now=6.0)
        assert owner(path) == {"pid": holder.pid, "host": os.uname().nodename, "since": 5.0}


def test_a_killed_holder_leaves_the_lock_free(path: str) -> None:
    with process(HOLD, path) as holder:
        assert line(holder) == "locked"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        RunLock.take(path, run="x-0000", now=6.0).release()


def test_a_forked_child_does_not_keep_the_lock_of_its_parent(path: str) -> None:
    with process(FORK, path) as parent:
        said, child = line(parent).split()
        assert said == "locked"
        assert is_locked(path)
        parent.kill()
        parent.wait()
        assert not is_locked(path)
        os.kill(int(child), signal.SIGKILL)


def test_a_started_program_does_not_inherit_the_lock(path: str) -> None:
    lock = RunLock.take(path, run="x-0000", now=5.0)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        assert not is_locked(path)
        child.kill()


def test_of_several_processes_exactly_one_gets_the_lock(path: str) -> None:
    with process(FIGHT, path) as one, process(FIGHT, path) as two, process(FIGHT, path) as three:
        fighters = [one, two, three]
        assert [line(fighter) for fighter in fighters] == ["ready"] * 3
        for fighter in fighters:
            assert fighter.stdin is not None
            fighter.stdin.write("\n")
            fighter.stdin.flush()
        assert sorted(line(fighter) for fighter in fighters) == ["refused", "refused", "taken"]


def test_asking_never_keeps_a_driver_from_taking_the_lock(path: str) -> None:
    RunLock.take(path, run="x-0000", now=5.0).release()
    with process(ASK, path) as asker:
        assert line(asker) == "ready"
        for _ in range(2000):
            RunLock.take(path, run="x-0000", now=5.0).release()


def test_a_lock_whose_run_was_removed_meanwhile_is_not_taken(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def open_then_lose(name: str, *arguments: int) -> int:
        descriptor = opened(name, *arguments)
        os.unlink(name)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_lose)
    with pytest.raises(SpecError, match="removed"):
        RunLock.take(path, run="x-0000", now=5.0)


def test_a_lock_file_with_any_content_is_no_trouble(path: str) -> None:
    Path(path).write_bytes(b"\xff\x00[")
    assert owner(path) is None
    with process(HOLD, path) as holder:
        assert line(holder) == "locked"
        Path(path).write_text("[]")
        with pytest.raises(RunLocked, match="another process\\."):
            RunLock.take(path, run="x-0000", now=6.0)
