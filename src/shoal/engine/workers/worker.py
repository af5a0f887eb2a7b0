"""A worker process on this machine, from the fork on: sets itself up, then hands over to the harness."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from shoal.engine.workers import linux, messages
from shoal.engine.workers.item_loop import ERROR_LENGTH, Harness
from shoal.engine.workers.reporting import REPORT_VARIABLE
from shoal.engine.workers.runner import Facts, Runner
from shoal.model import Factory

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
GIVEN_THREADS_VARIABLE = "SHOAL_THREADS"
"""Which of them a worker set, as `NAME=VALUE,...`: a run inside a trial decides anew, for workers of its own size."""


def main(connection: socket.socket) -> int:
    """Run the worker that the first line describes until its driver ends it; the exit status."""
    os.setpgid(0, 0)
    linux.become_subreaper()
    linux.die_with_parent()
    connection.set_inheritable(False)
    os.register_at_fork(after_in_child=partial(_cut, connection.fileno()))
    send = _sender(connection)
    try:
        _serve(connection.makefile("rb"), send)
    except BaseException as error:  # noqa: BLE001 - a factory may raise anything, and a full disk stops any worker
        with suppress(Exception):
            traceback.print_exception(error)
            sys.stderr.flush()
        why = f"{type(error).__name__}: {error}"
        send([messages.encode(messages.FailedStart(why[:ERROR_LENGTH]))])
        return 70
    linux.kill_children()
    return 0


def _cut(descriptor: int) -> None:
    """In a process that user code forked: what it writes to the socket by mistake goes nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def _serve(lines: BinaryIO, send: Any) -> None:
    """Set up, make the runner, run items."""
    line = lines.readline()
    if not line.endswith(b"\n"):
        return  # The driver is gone before it had said what to do.
    setup = messages.decode_order(line)
    del line
    assert isinstance(setup, messages.Setup)
    offset = setup.clock_offset

    def now() -> float:
        """The engine's clock: monotonic time is the same in every process of a machine, wall time may be set."""
        return offset + time.monotonic()

    began = now()
    log_fd = _redirect(setup.log)
    _set_up(setup)
    harness = Harness(send, setup.root, reports_of(setup.log), log_fd, now)
    runner = make_runner(setup.factory, setup.blob)
    facts = Facts(runner, setup.address, setup.devices)
    del setup  # A blob may be large.
    threading.Thread(target=_listen, args=(lines, harness), daemon=True).start()
    send([messages.encode(messages.Ready(now(), now() - began, facts.news() or {}))])
    harness.loop(runner, facts)


def reports_of(log: str) -> str:
    """The file that processes of items append their reports to."""
    return log.removesuffix(".log") + ".reports"


def make_runner(factory: Factory, blob: str | None) -> Runner:
    """Import the factory's target and call it. `blob` is what `encoded` gave, where the file is on another machine."""
    arguments = dict(factory.arguments)
    if blob is not None:
        arguments["blob"] = a2b_base64(blob)
    elif factory.blob:
        with open(factory.blob, "rb") as file:
            arguments["blob"] = file.read()
    module, _, name = factory.target.partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)(**arguments)
    return runner


def encoded(blob: str) -> str | None:
    """The content of a factory's blob, as it travels with a request to another machine; None where there is none."""
    if not blob:
        return None
    with open(blob, "rb") as file:
        return b2a_base64(file.read(), newline=False).decode()


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


def _set_up(setup: messages.Setup) -> None:
    """Environment, devices, limits, folder and import path, before anything of the user's is imported."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    set_variables(setup)
    if setup.memory_bytes:
        limit_memory(setup.memory_bytes)
    enter(setup.factory.folder)


def set_variables(setup: messages.Setup) -> None:
    """The environment of a worker: of its factory, and what follows from its place."""
    set_threads(str(max(1, int(setup.cpu))))
    if setup.devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(setup.devices)
    os.environ.update(setup.factory.env)
    os.environ[REPORT_VARIABLE] = reports_of(setup.log)


def enter(folder: str) -> None:
    """Run in a folder, and import from it; nowhere else, where there is none."""
    if folder:
        os.chdir(folder)
        import_from(folder)


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

    def send(told: Sequence[bytes]) -> None:
        if not told:
            return
        with lock:
            try:
                connection.sendall(b"".join(told))
            except OSError:
                os._exit(0)

    return send


def _listen(lines: BinaryIO, harness: Harness) -> None:
    """The reader thread. When the driver is gone, so is this process, whatever it is doing."""
    try:
        for line in lines:
            _obey(messages.decode_order(line), harness)
    except (OSError, ValueError):
        pass
    linux.kill_children()
    os._exit(0)


def _obey(order: messages.Order, harness: Harness) -> None:
    if isinstance(order, messages.Chunk):
        harness.take(order.entries)
    elif isinstance(order, messages.Cancel):
        harness.cancel(*order)
    elif isinstance(order, messages.Recall):
        harness.recall()
    else:
        harness.end()
