"""Server processes of tests: free ports, waiting until one answers, and ending it for sure."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from testbed.linux import die_with_parent

Started = TypeVar("Started")

READY_S = 60.0
POLL_S = 0.05
_ATTEMPTS = 3
END_S = 2.0  # Their data is thrown away, so nothing is lost by making them.


class NotStarted(Exception):  # noqa: N818 - what went wrong is the name
    """A server ended, or did not answer in time; the message has the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free just now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_until(what: str, is_so: Callable[[], bool], timeout_s: float = READY_S) -> None:
    """Ask until the answer is yes. An OSError counts as no."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(POLL_S)
    raise NotStarted(f"{what}: not within {timeout_s:g}s")


@contextmanager
def server(
    name: str,
    command: Sequence[str],
    folder: Path,
    is_ready: Callable[[], bool],
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is ready to use inside the `with`, and gone after it."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            preexec_fn=_end_with_tests,
        )

    def is_up() -> bool:
        if process.poll() is not None:
            raise NotStarted(f"{name} ended with {process.returncode}")
        return is_ready()

    try:
        try:
            wait_until(name, is_up)
        except NotStarted as error:
            raise NotStarted(f"{error}\n{log.read_text(errors='replace')[-3000:]}") from None
        yield process
    finally:
        end(process)


def _end_with_tests() -> None:
    """In the server, before it starts: it ends also when the tests are killed."""
    die_with_parent(signal.SIGKILL)


@contextmanager
def retried(start: Callable[[], AbstractContextManager[Started]]) -> Iterator[Started]:
    """What `start` starts on ports that were free just now; once more where somebody took one in between."""
    for attempt in range(_ATTEMPTS):
        context = start()
        try:
            started = context.__enter__()
        except NotStarted:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        try:
            yield started
        finally:
            context.__exit__(None, None, None)
        return


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then make it."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
