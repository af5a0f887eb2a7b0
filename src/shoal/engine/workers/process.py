"""A command as an item: started in a process group of its own, watched, ended with everything it started.

Its output goes to the worker's log, or where the caller says; what it reports comes through a
file (see `reporting`).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from typing import NamedTuple

from shoal.engine.workers import linux
from shoal.engine.workers.reporting import REPORT_VARIABLE, ReportFile
from shoal.engine.workers.runner import Cancelled, Failed, Work

POLL_S = 0.1
"""How often the reports of a running command are looked at."""
TERM_S = 3.0
"""Between asking a command to end and ending it."""
PYTHONS = ("python", "python3")
TAIL_BYTES = 2000


def run_command(
    arguments: Sequence[str], work: Work, *, env: Mapping[str, str] | None = None, stdout: str | None = None
) -> None:
    """Run it to its end. Raises `Failed` when it does not end well, `Cancelled` when it was asked to end.

    `env` is added to the environment. What it prints goes to the file `stdout` where that is given; what it says on
    standard error goes to the log in any case.
    """
    log_start = os.lseek(work.log_fd, 0, os.SEEK_END)
    with closing(ReportFile(os.environ[REPORT_VARIABLE])) as reports, _Bell() as bell:
        work.on_cancel = bell.ring
        status = (
            0 if work.cancelled else _run(_Command(arguments, env, stdout, work.log_fd), bell, reports, work)
        )
    if work.cancelled:
        raise Cancelled
    if status != 0:
        raise Failed(_why(status, work.log_fd, log_start))


class _Command(NamedTuple):
    arguments: Sequence[str]
    env: Mapping[str, str] | None
    stdout: str | None
    log_fd: int

    def start(self) -> subprocess.Popen[bytes]:
        name = self.arguments[0]
        program = sys.executable if name in PYTHONS else name
        environment = {**os.environ, **self.env} if self.env is not None else None
        try:
            with open(self.stdout, "wb") if self.stdout is not None else nullcontext(self.log_fd) as stdout:
                return subprocess.Popen(
                    [program, *self.arguments[1:]],
                    process_group=0,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=self.log_fd,
                )
        except FileNotFoundError:
            raise Failed(f"command not found: {name}") from None
        except PermissionError:
            raise Failed(f"not allowed to run {name}: is it executable?") from None
        except (OSError, ValueError) as error:
            raise Failed(f"cannot run {name}: {error}") from None


class _Bell:
    """Wakes the waiting thread from another one; ringing it after it was taken down does nothing."""

    def __enter__(self) -> _Bell:
        self.descriptor, self._write = os.pipe()
        self._lock = threading.Lock()
        self._hangs = True
        return self

    def ring(self) -> None:
        with self._lock:
            if self._hangs:
                os.write(self._write, b"x")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._hangs = False
            os.close(self.descriptor)
            os.close(self._write)


def _run(command: _Command, bell: _Bell, reports: ReportFile, work: Work) -> int:
    others = linux.children()
    child = command.start()
    try:
        _wait(child, bell.descriptor, reports, work)
    finally:
        _end(child, others, work.log_fd)
    _pass_on(reports, work)
    return child.returncode or 0  # None when it was asked to end and cannot be killed.


def _end(child: subprocess.Popen[bytes], others: set[int], log_fd: int) -> None:
    """Kill what is left of it. What cannot be killed is left, and the item's log says so.

    `others` were children of this process before.
    """
    if linux.kill_group(child.pid, signal.SIGKILL):
        with suppress(subprocess.TimeoutExpired):
            child.wait(linux.DYING_S)
    for sentence in linux.kill_children(spared=others):
        os.write(log_fd, f"shoal: {sentence}\n".encode())


def find_python_first() -> None:
    """`python`, in a command or in a script it starts, is the interpreter that runs Shoal."""
    folder = os.path.dirname(sys.executable)
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)


def _wait(child: subprocess.Popen[bytes], wake: int, reports: ReportFile, work: Work) -> None:
    """Until it has ended, or has had `TERM_S` for it since it was asked to."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    ended = _end_of(child.pid)
    if ended is not None:
        poll.register(ended, select.POLLIN)
    kill_at: float | None = None
    try:
        while child.poll() is None and (kill_at is None or time.monotonic() < kill_at):
            poll.poll((POLL_S if ended is not None else 0.01) * 1000)
            _pass_on(reports, work)
            if work.cancelled and kill_at is None:
                poll.unregister(wake)
                kill_at = time.monotonic() + TERM_S
                linux.kill_group(child.pid, signal.SIGTERM)
    finally:
        if ended is not None:
            os.close(ended)


def _pass_on(reports: ReportFile, work: Work) -> None:
    for attempt, step, metrics in reports.read(3):
        if attempt == str(work.counted_attempt):
            work.report(metrics, step)


def _end_of(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended; None where the system has none, or allows none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _why(status: int, log_fd: int, log_start: int) -> str:
    """The exit status in words, and the last line the command wrote, which is where programs say what was wrong."""
    words = (
        f"exited with status {status}"
        if status > 0
        else linux.describe_status(status).removeprefix("the process ")
    )
    end = os.lseek(log_fd, 0, os.SEEK_END)
    start = max(log_start, end - TAIL_BYTES)
    tail = os.pread(log_fd, end - start, start).decode("utf-8", "replace")
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return f"{words}: {lines[-1][:500]}" if lines else words


def is_program(name: str, folder: str) -> bool:
    """Whether a command that starts with this name, run in `folder`, finds a program."""
    if os.sep in name:
        return _can_run(os.path.join(folder, name))
    path = os.environ.get("PATH", os.defpath)
    return any(_can_run(os.path.join(place, name)) for place in path.split(os.pathsep) if place)


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
