"""The process that forks workers: started once per run, it imports little, runs no user code and never threads.

Forking from it takes a millisecond, and nothing it started outlives it: when its driver goes, it ends every
descendant and itself. Requests and answers are lines of JSON on the socket it is given as file descriptor 3.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from shoal.engine.workers import linux, worker
from shoal.engine.workers.spawning import CONTROL_FD


class Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: dict[int, int] = {}
        """Worker id by process id."""
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
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake in ready:
                self._drain_wake()
                self._reap()
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
            self._obey(json.loads(line))
        return True

    def _obey(self, request: dict[str, Any]) -> None:
        if request["op"] == "spawn":
            self._spawn(request, self._descriptors.pop(0))
        elif request["op"] == "kill":
            for pid, number in list(self._workers.items()):
                if number == request["worker"]:
                    linux.kill_group(pid, signal.SIGKILL)

    def _spawn(self, request: dict[str, Any], descriptor: int) -> None:
        preload(request["factory"]["target"].partition(":")[0])
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            self._tell({"exit": request["worker"], "status": None, "why": f"cannot start a process: {error}"})
            return
        if pid == 0:
            self._become_worker(request, descriptor)
        os.close(descriptor)
        self._workers[pid] = request["worker"]

    def _become_worker(self, request: dict[str, Any], descriptor: int) -> None:
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (self._wake, self._wake_write):
                os.close(inherited)
            self._control.close()
            status = worker.main(socket.socket(fileno=descriptor), request)
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
            number = self._workers.pop(pid, None)
            if number is not None:
                linux.kill_children(spared=self._workers)
                self._tell({"exit": number, "status": os.waitstatus_to_exitcode(status), "why": None})

    def _tell(self, answer: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(answer).encode() + b"\n")
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
