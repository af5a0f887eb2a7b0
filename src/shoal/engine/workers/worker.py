"""A worker process on this machine, from the fork on: sets itself up, then hands over to the harness."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.engine.workers import linux, messages
from shoal.engine.workers.harness import Harness
from shoal.engine.workers.reporting import REPORT_VARIABLE
from shoal.engine.workers.runner import Runner

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
GIVEN_THREADS_VARIABLE = "SHOAL_THREADS"
"""Which of them a worker set, as `NAME=VALUE,...`: a run inside a trial decides anew, for workers of its own size."""


def main(connection: socket.socket, request: Mapping[str, Any]) -> int:
    """Run the worker that `request` describes until its driver ends it; the exit status."""
    os.setpgid(0, 0)
    linux.become_subreaper()
    linux.die_with_parent()
    send = _sender(connection)
    try:
        _serve(connection, request, send)
    except BaseException as error:  # noqa: BLE001 - a factory may raise anything, and a full disk stops any worker
        with suppress(Exception):
            traceback.print_exception(error)
            sys.stderr.flush()
        send([messages.failed_start(f"{type(error).__name__}: {error}")])
        return 70
    linux.kill_children()
    return 0


def _serve(connection: socket.socket, request: Mapping[str, Any], send: Any) -> None:
    """Set up, make the runner, run items."""
    offset: float = request["clock_offset"]

    def now() -> float:
        """The engine's clock: monotonic time is the same in every process of a machine, wall time may be set."""
        return offset + time.monotonic()

    began = now()
    log_fd = _redirect(request["log"])
    _set_up(request)
    harness = Harness(send, request["root"], log_fd, now)
    runner = make_runner(request["factory"])
    threading.Thread(target=_listen, args=(connection, harness), daemon=True).start()
    send([messages.ready(now(), now() - began)])
    harness.loop(runner)


def make_runner(factory: Mapping[str, Any]) -> Runner:
    """Import the factory's target and call it."""
    module, _, name = factory["target"].partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)(**factory["arguments"])
    return runner


def _redirect(log: str) -> int:
    """Standard output and error go to the worker's log; there is no input."""
    log_fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Made anew: a driver whose own streams were closed has none to pass on.
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return log_fd


def _set_up(request: Mapping[str, Any]) -> None:
    """Environment, devices, limits, folder and import path, before anything of the user's is imported."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    set_threads(str(max(1, int(request["cpu"]))))
    if request["devices"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(request["devices"])
    factory = request["factory"]
    os.environ.update(factory["env"])
    os.environ[REPORT_VARIABLE] = request["log"].removesuffix(".log") + ".reports"
    if request["memory_bytes"]:
        limit_memory(request["memory_bytes"])
    if factory["folder"]:
        os.chdir(factory["folder"])
        import_from(factory["folder"])


def set_threads(threads: str) -> None:
    """Where nobody has said how many there are to be; what a worker around this one set says nothing."""
    outer = os.environ.get(GIVEN_THREADS_VARIABLE, "").split(",")
    ours = [
        name for name in THREAD_VARIABLES if name not in os.environ or f"{name}={os.environ[name]}" in outer
    ]
    os.environ.update(dict.fromkeys(ours, threads))
    os.environ[GIVEN_THREADS_VARIABLE] = ",".join(f"{name}={threads}" for name in ours)


def limit_memory(memory_bytes: int) -> None:
    """What this process and each of its children may allocate. The system counts per process, not per tree."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    allowed = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def import_from(folder: str) -> None:
    """Modules in `folder` can be imported, but never in place of the standard library's."""
    position = next((i for i, path in enumerate(sys.path) if "-packages" in path), len(sys.path))
    sys.path.insert(position, folder)


def _sender(connection: socket.socket) -> Any:
    lock = threading.Lock()

    def send(told: Sequence[messages.Message]) -> None:
        if not told:
            return
        data = "".join([json.dumps(message) + "\n" for message in told]).encode()
        with lock:
            try:
                connection.sendall(data)
            except OSError:
                os._exit(0)

    return send


def _listen(connection: socket.socket, harness: Harness) -> None:
    """The reader thread. When the driver is gone, so is this process, whatever it is doing."""
    try:
        with connection.makefile("rb") as lines:
            for line in lines:
                _obey(json.loads(line), harness)
    except (OSError, ValueError):
        pass
    linux.kill_children()
    os._exit(0)


def _obey(message: list[Any], harness: Harness) -> None:
    operation, *arguments = message
    if operation == "chunk":
        harness.take(arguments[0])
    elif operation == "cancel":
        harness.cancel(*arguments)
    elif operation == "recall":
        harness.recall()
    elif operation == "end":
        harness.end()
