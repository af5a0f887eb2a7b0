"""The process that forks workers: started once per run, it imports little, runs no user code and never threads.

Forking from it takes a millisecond, and nothing it started outlives it: when its driver goes, it ends every
descendant and itself. Requests and answers are lines of JSON on the socket it is given as file descriptor 3.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time

from shoal.engine.workers import linux, worker
from shoal.engine.workers.zygote_client import (
    CONTROL_FD,
    Answer,
    Exited,
    Ping,
    Pong,
    Request,
    Spawn,
    decode,
    encode,
)

PAUSE_MS = 2
"""How long to wait before it is looked again whether a process is gone."""


class Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: dict[int, int] = {}
        """Worker id by process id."""
        self._ended: list[Exited] = []
        """Ends of workers that are told once what these left behind is gone, too."""
        self._ended_at = 0.0
        """When the first of them ended."""
        self._killed: dict[int, float] = {}
        """When a worker was killed that has not ended, by process id."""
        self._left: set[int] = set()
        """Processes that could not be killed."""
        self._buffer = b""
        self._descriptors: list[int] = []
        self._wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake_write = wake_write

    def serve(self) -> None:
        """Until the driver closes its end, by intent or by dying."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {
                descriptor for descriptor, _ in poll.poll(PAUSE_MS if self._ended or self._killed else None)
            }
            if self._wake in ready:
                self._drain_wake()
                self._reap()
            if self._killed:
                self._give_up()
            if self._ended:
                self._clear_up()
            if self._control.fileno() in ready and not self._receive():
                return

    def _drain_wake(self) -> None:
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            return

    def _receive(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 8)
        except OSError:
            return False
        if not data:
            return False
        self._descriptors.extend(descriptors)
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._obey(decode(line))
        return True

    def _obey(self, request: Request) -> None:
        if isinstance(request, Spawn):
            self._spawn(request.worker, request.module, self._descriptors.pop(0))
        elif isinstance(request, Ping):
            self._tell(Pong(request.number))
        else:
            for pid, number in list(self._workers.items()):
                if number == request.worker:
                    linux.kill_group(pid, signal.SIGKILL)
                    self._killed.setdefault(pid, time.monotonic())

    def _spawn(self, number: int, module: str, descriptor: int) -> None:
        preload(module)
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            self._tell(Exited(number, None, f"cannot start a process: {error}"))
            return
        if pid == 0:
            self._become_worker(descriptor)
        os.close(descriptor)
        self._workers[pid] = number

    def _become_worker(self, descriptor: int) -> None:
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (self._wake, self._wake_write):
                os.close(inherited)
            self._control.close()
            status = worker.main(socket.socket(fileno=descriptor))
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._left.discard(pid)
            self._killed.pop(pid, None)
            number = self._workers.pop(pid, None)
            if number is not None:
                if not self._ended:
                    self._ended_at = time.monotonic()
                self._ended.append(Exited(number, os.waitstatus_to_exitcode(status), None))

    def _give_up(self) -> None:
        """A worker that was killed and does not end counts as gone."""
        for pid, at in list(self._killed.items()):
            if time.monotonic() - at > linux.DYING_S:
                del self._killed[pid]
                self._left.add(pid)
                self._tell(Exited(self._workers.pop(pid), None, linux.cannot_end(pid)))

    def _clear_up(self) -> None:
        """Kill what workers that have ended left behind, and tell of their ends when it is gone.

        So a retry never runs beside what it is a retry of. What cannot be killed is named, and left. Nothing waits
        here: others want to be started, killed and heard of meanwhile.
        """
        doomed = linux.children() - self._workers.keys() - self._left
        patience_s = linux.kill_groups(doomed)
        if doomed and time.monotonic() - self._ended_at < patience_s:
            return
        self._left |= doomed
        ended, self._ended = self._ended, []
        first, *others = ended
        for each in (first._replace(left=[linux.cannot_end(pid) for pid in sorted(doomed)]), *others):
            self._tell(each)

    def _tell(self, answer: Answer) -> None:
        try:
            self._control.sendall(encode(answer))
        except OSError:
            return

    def end(self) -> None:
        for pid in list(self._workers):
            linux.kill_group(pid, signal.SIGKILL)
        linux.kill_children()


def preload(module: str) -> None:
    """Import a module of Shoal's once, here, instead of in every worker. User code is never imported here."""
    if module.startswith("shoal."):
        importlib.import_module(module)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.become_subreaper()
    control = socket.socket(fileno=CONTROL_FD)
    control.set_inheritable(False)
    zygote = Zygote(control)
    for module in sys.argv[1:]:
        preload(module)
    gc.collect()
    gc.freeze()
    try:
        zygote.serve()
    finally:
        zygote.end()
        os._exit(0)  # Its driver waits for it: nothing is left to be tidied up.
