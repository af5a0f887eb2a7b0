"""The embedded engine: worker processes on this machine, on one node or on several virtual ones. No service needed."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Sequence

from shoal.engine.local.leases import Leases, table_path
from shoal.engine.reservations import SharedNodes
from shoal.engine.workers import messages, zygote_client
from shoal.engine.workers.runner import THIS_MACHINE
from shoal.engine.workers.worker_links import Connection, Known, Talking
from shoal.model import (
    Event,
    Factory,
    ItemEnded,
    LostCause,
    Node,
    Place,
    WorkerLost,
)

FORGIVEN = 2
"""How often the process that starts workers may die before its death counts against workers that ran nothing."""
LOOK_S = 1.0
"""How often, at least, it is looked whether that process still answers."""
BURST = 64
PAUSE_S = 0.0015
"""After a burst of events, let more arrive instead of being woken for each one."""


class _Worker(Known):
    """A worker process on this machine."""

    __slots__ = ("connection", "zygote")

    def __init__(
        self,
        number: int,
        place: Place,
        log_file: str,
        connection: Connection,
        zygote: zygote_client.ZygoteClient,
    ) -> None:
        super().__init__(number, place, log_file)
        self.connection = connection
        self.zygote = zygote


class LocalEngine(SharedNodes, Talking):
    """Keeps the `Engine` contract. `root` is the run's folder: logs and items' folders go there.

    `scope` names the nodes: drivers with the same scope share them. `python` runs the workers, where it is not the
    interpreter of this process: one that can import Shoal.
    """

    name = "local"
    latency_s = 0.0
    stagger_s = 0.0

    def __init__(
        self,
        nodes: Sequence[Node],
        root: str,
        *,
        scope: str = "machine",
        session: str = "0",
        python: str | None = None,
    ) -> None:
        super().__init__(list(nodes), Leases(nodes, scope, table_path(), os.path.basename(root)))
        self._root = root
        self._session = session
        self._python = python
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._zygote: zygote_client.ZygoteClient | None = None
        """The one that new workers are forked from, while none is suspected."""
        self._zygotes: set[zygote_client.ZygoteClient] = set()
        self._zygotes_lost = 0
        self._suspects: set[int] = set()
        """Items that ran when a zygote died under several workers: one of them may have killed it. Until all of them
        have ended, each new worker has a zygote of its own, so that the next death shows whose doing it was."""
        self._numbers = 0
        self._busy = False
        self._closed = False
        os.makedirs(os.path.join(root, "logs"), exist_ok=True)

    # Workers.

    def spawn(self, factory: Factory, place: Place) -> int:
        self._numbers += 1
        number = self._numbers
        ours, theirs = socket.socketpair()
        log_file = f"logs/{self._session}-{number}.log"
        zygote = self._ask()
        worker = _Worker(number, place, log_file, Connection(ours), zygote)
        self._workers[number] = worker
        self._selector.register(ours, selectors.EVENT_READ, worker)
        setup = messages.Setup(
            number,
            factory,
            os.path.join(self._root, log_file),
            place.need.cpu,
            place.need.memory_bytes,
            self._root,
            self._offset,
            place.devices,
            THIS_MACHINE,
        )
        with theirs, contextlib.suppress(OSError):
            # A zygote that has just died is noticed by `wait`, which then reports this worker as lost.
            zygote.spawn(number, factory.target, theirs)
        self._send(number, setup)
        return number

    def _ask(self) -> zygote_client.ZygoteClient:
        """The zygote for a new worker."""
        if self._zygote is not None and not self._suspects:
            return self._zygote
        zygote = zygote_client.take(self._python)
        self._zygotes.add(zygote)
        self._selector.register(zygote.socket, selectors.EVENT_READ, zygote)
        if not self._suspects:
            self._zygote = zygote
        return zygote

    def end(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].ended = True
            self._send(worker, messages.End())

    def kill(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].cause = LostCause.KILLED
            with contextlib.suppress(OSError):
                self._workers[worker].zygote.kill(worker)

    def _send(self, number: int, message: messages.Order) -> None:
        worker = self._workers.get(number)
        if worker is None or not worker.connection.open:
            return  # It is gone, or about to be: `WorkerLost` comes, or has come.
        worker.connection.send(messages.encode(message))
        if worker.connection.backlog:
            self._selector.modify(
                worker.connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, worker
            )

    # Events.

    def wait(self, timeout_s: float) -> Sequence[Event]:
        if self._closed:
            return ()
        until = self.now() + timeout_s
        if self._busy:
            time.sleep(PAUSE_S)
        while True:
            now = self.now()
            if now >= self._reservations.next_tick():
                self._tick({number: worker.place for number, worker in self._workers.items()}, now)
            if self._events:
                break
            left = min(until, self._reservations.next_tick(), now + LOOK_S) - now
            for key, mask in self._selector.select(max(0.0, left)):
                self._ready(key.data, mask)
            self._look_at_zygotes()
            if not self._events and self.now() >= until:
                break
        events, self._events = self._events, []
        self._busy = len(events) >= BURST
        return events

    def _ready(self, worker: _Worker | zygote_client.ZygoteClient, mask: int) -> None:
        if isinstance(worker, zygote_client.ZygoteClient):
            if worker in self._zygotes:
                self._hear_zygote(worker)
        elif worker.number in self._workers:
            if mask & selectors.EVENT_WRITE:
                worker.connection.flush()
                if not worker.connection.backlog:
                    self._selector.modify(worker.connection.socket, selectors.EVENT_READ, worker)
            if mask & selectors.EVENT_READ:
                self._hear(worker)
                if not worker.connection.open:
                    # Its end comes from the zygote; a process that only closed the socket is of no use any more.
                    self._selector.unregister(worker.connection.socket)
                    with contextlib.suppress(OSError):
                        worker.zygote.kill(worker.number)

    def _hear(self, worker: _Worker) -> None:
        now = self.now()
        for message in worker.connection.receive():
            event = worker.hear(message, now)
            if event is not None:
                self._events.append(event)
                if self._suspects and type(event) is ItemEnded:
                    self._suspects.discard(event.seq)

    def _hear_zygote(self, zygote: zygote_client.ZygoteClient) -> None:
        told = zygote.receive()
        if told is None:
            self._lose_zygote(zygote, "the process that starts workers was killed")
            return
        for end in told:
            if end.worker in self._workers:
                self._lose(self._workers[end.worker], end.status, end.why)
                if zygote is not self._zygote:
                    self._drop(zygote)  # It had no other.

    def _look_at_zygotes(self) -> None:
        for zygote in list(self._zygotes):
            if zygote.is_silent(time.monotonic()):
                zygote.kill_all()
                self._lose_zygote(zygote, "the process that starts workers did not answer, and was killed")

    def _drop(self, zygote: zygote_client.ZygoteClient) -> None:
        self._selector.unregister(zygote.socket)
        self._zygotes.remove(zygote)
        zygote.close()

    def _lose_zygote(self, zygote: zygote_client.ZygoteClient, why: str) -> None:
        """All of its workers are gone. Of a shared one nobody knows which of them did it, so nobody is to blame yet."""
        shared = zygote is self._zygote
        self._zygote = None if shared else self._zygote
        self._drop(zygote)
        self._zygotes_lost += 1
        for worker in [worker for worker in self._workers.values() if worker.zygote is zygote]:
            self._hear_rest(worker)
            reason = why
            if worker.running is None:
                forgiven = self._zygotes_lost <= FORGIVEN
            elif forgiven := shared:
                self._suspects.add(worker.running[0])
            else:
                reason = f"{why} while only this item ran under it"
            if worker.cause is LostCause.CRASH and forgiven:
                worker.cause = LostCause.NODE
            self._lose(worker, None, reason)

    def _lose(self, worker: _Worker, status: int | None, why: str | None) -> None:
        """The process is gone: hear what it said last, free its place, tell."""
        self._hear_rest(worker)
        worker.connection.close()
        del self._workers[worker.number]
        self._reservations.give(worker.place)
        cause, reason = worker.end(status, why)
        self._events.append(WorkerLost(worker.number, self.now(), cause, reason, worker.running))

    def _hear_rest(self, worker: _Worker) -> None:
        if worker.connection.open:
            self._selector.unregister(worker.connection.socket)
            while worker.connection.open:
                before = len(self._events)
                self._hear(worker)
                if len(self._events) == before:
                    break
            worker.connection.open = False

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in self._workers.values():
            worker.connection.close()
        self._workers.clear()
        self._reservations.clear()
        self._events.clear()
        for zygote in self._zygotes:
            zygote.close()
        self._zygotes.clear()
        self._selector.close()
        self._leases.close()
