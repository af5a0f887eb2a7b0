"""The engine for debugging: items run in the process and the thread that calls `wait`, one at a time.

So breakpoints, debuggers and tracebacks work as in any script. Nothing is isolated: what an item does to its process it
does to the driver, and nobody can end an item while it runs (`kill`, timeouts, memory limits, pruning) but Ctrl-C.
Commands are processes of their own here, too.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import deque
from collections.abc import Sequence
from typing import NoReturn

from shoal.engine.inline.surroundings import Surroundings, hearing_interrupts
from shoal.engine.reservations import Leases, SharedNodes
from shoal.engine.workers import messages, reporting
from shoal.engine.workers.item_loop import ERROR_LENGTH, Harness
from shoal.engine.workers.runner import THIS_MACHINE, Facts, Runner
from shoal.engine.workers.worker import enter, make_runner, reports_of, set_variables
from shoal.engine.workers.worker_links import Known
from shoal.model import (
    Event,
    Factory,
    FactsChanged,
    Item,
    ItemEnded,
    ItemsReturned,
    ItemStarted,
    ItemState,
    LogSlice,
    LostCause,
    Node,
    Outcome,
    Place,
    WorkerLost,
    WorkerReady,
)

STOPPED = (ItemState.STOPPED, "the run was stopped")


class _Gone(Exception):  # noqa: N818 - a state: the worker has said why it goes
    pass


class _Harness(Harness):
    """That of a worker whose process goes on when the worker ends."""

    def _interrupt(self) -> None:
        if self._interruptible:
            raise KeyboardInterrupt

    def _exit(self, status: int) -> NoReturn:
        if os.getpid() != self._process:
            os._exit(status)
        raise _Gone


class _Worker(Known):
    """Made by its first turn in `wait`, as its factory may take long."""

    __slots__ = ("factory", "facts", "log_fd", "made", "queue", "started", "surroundings")

    def __init__(self, number: int, factory: Factory, place: Place, log_file: str, root: str) -> None:
        super().__init__(number, place, log_file)
        self.factory = factory
        self.queue: deque[Item] = deque()
        self.started: Item | None = None
        """The item of which it was said that it has started: the next to be run."""
        self.made: tuple[Harness, Runner] | None = None
        self.facts: Facts
        """Once it is made."""
        self.log_fd = os.open(os.path.join(root, log_file), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.surroundings = Surroundings(factory.folder, self.log_fd)

    def close(self) -> None:
        if self.made is not None:
            self.made[0].close()
        self.surroundings.close()
        os.close(self.log_fd)


class InlineEngine(SharedNodes):
    """Keeps the `Engine` contract but for isolation. `root` is the run's folder, `leases` the table for these nodes."""

    name = "inline"
    latency_s = 0.0
    stagger_s = 0.0

    def __init__(self, nodes: Sequence[Node], root: str, leases: Leases, *, session: str = "0") -> None:
        super().__init__(list(nodes), leases)
        self._root = root
        self._session = session
        self._workers: dict[int, _Worker] = {}
        self._numbers = 0
        os.makedirs(os.path.join(root, "logs"), exist_ok=True)

    # What workers are told. An item that runs is in `wait`: nothing of this comes in between.

    def spawn(self, factory: Factory, place: Place) -> int:
        self._numbers += 1
        log_file = f"logs/{self._session}-{self._numbers}.log"
        self._workers[self._numbers] = _Worker(self._numbers, factory, place, log_file, self._root)
        return self._numbers

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        if worker in self._workers:
            self._workers[worker].queue.extend(items)

    def recall(self, worker: int) -> None:
        if worker in self._workers:
            queue = self._workers[worker].queue
            returned = tuple((item.seq, item.attempt) for item in queue)
            queue.clear()
            self._events.append(ItemsReturned(worker, returned, self.now()))

    def cancel(self, worker: int, seq: int, attempt: int, state: str, why: str) -> None:
        known = self._workers.get(worker)
        if known is not None and known.running == (seq, attempt):
            end = os.lseek(known.log_fd, 0, os.SEEK_END)
            known.running = known.started = None
            outcome = Outcome(state, error=why, log=LogSlice(known.log_file, end, end))
            self._events.append(ItemEnded(worker, seq, attempt, self.now(), outcome))

    def end(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].ended = True

    def kill(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].cause = LostCause.KILLED
            self._lose(self._workers[worker])

    # Events.

    def wait(self, timeout_s: float) -> Sequence[Event]:
        until = self.now() + timeout_s
        while True:
            now = self.now()
            if now >= self._reservations.next_tick():
                self._tick({number: worker.place for number, worker in self._workers.items()}, now)
            if self._events or any(map(self._advance, list(self._workers.values()))) or now >= until:
                events, self._events = self._events, []
                return events
            time.sleep(max(0.0, min(until, self._reservations.next_tick()) - now))

    def _advance(self, worker: _Worker) -> bool:
        """Do the next thing that this worker has to do; False where there is none."""
        if worker.made is None:
            self._start(worker)
        elif worker.started is not None:
            self._run(worker, *worker.made, worker.started)
        elif worker.queue:
            item = worker.started = worker.queue.popleft()
            worker.running = (item.seq, item.attempt)
            log = LogSlice(worker.log_file, os.lseek(worker.log_fd, 0, os.SEEK_END))
            self._events.append(ItemStarted(worker.number, item.seq, item.attempt, self.now(), log))
        elif worker.ended:
            self._lose(worker)
        else:
            return False
        return True

    def _start(self, worker: _Worker) -> None:
        began = self.now()
        factory, need, devices = worker.factory, worker.place.need, worker.place.devices
        log = os.path.join(self._root, worker.log_file)
        setup = messages.Setup(
            worker.number, factory, log, need.cpu, need.memory_bytes, self._root, devices=devices
        )
        try:
            with worker.surroundings.entered():
                set_variables(setup)
                enter(factory.folder)
                harness = _Harness(
                    lambda told: self._hear(worker, told),
                    self._root,
                    reports_of(log),
                    worker.log_fd,
                    self.now,
                )
                runner = make_runner(factory, None)
                worker.made = harness, runner
                worker.facts = Facts(runner, THIS_MACHINE, devices)
        except Exception as error:  # noqa: BLE001 - a factory may raise anything
            self._fail(worker, error)
        else:
            facts = worker.facts.news() or {}
            self._events.append(WorkerReady(worker.number, self.now(), self.now() - began, facts))

    def _run(self, worker: _Worker, harness: Harness, runner: Runner, item: Item) -> None:
        """The whole item. Its parameters are a copy, as if they had come a long way: user code may change them."""
        chunk = messages.decode_order(messages.encode(messages.Chunk([messages.entry(item)])))
        assert isinstance(chunk, messages.Chunk)
        worker.started = None
        worker.surroundings.printed = False
        start = os.lseek(worker.log_fd, 0, os.SEEK_END)
        try:
            with (
                worker.surroundings.entered(),
                hearing_interrupts(lambda: harness.cancel(item.seq, item.attempt, *STOPPED)),
            ):
                end = harness.attempt(runner, chunk.entries[0], [])
        except _Gone:
            self._lose(worker)
        except Exception as error:  # noqa: BLE001 - its folder cannot be made: this worker is of no use any more
            self._fail(worker, error)
        else:
            harness.park()
            if not worker.surroundings.printed:
                worker.surroundings.show(start, os.lseek(worker.log_fd, 0, os.SEEK_END))
            if (news := worker.facts.news()) is not None:
                self._events.append(FactsChanged(worker.number, self.now(), news))
            self._hear(worker, [end])
        finally:
            reporting.set_current(None)

    def _hear(self, worker: _Worker, told: Sequence[bytes]) -> None:
        for message in messages.decode(b"".join(told).removesuffix(b"\n"))[0] if told else ():
            event = worker.hear(message, self.now())
            if event is not None and type(event) is not ItemStarted:  # That was said before it was run.
                self._events.append(event)

    def _fail(self, worker: _Worker, error: Exception) -> None:
        with worker.surroundings.entered():
            traceback.print_exception(error)
        worker.hear(messages.FailedStart(f"{type(error).__name__}: {error}"[:ERROR_LENGTH]), self.now())
        self._lose(worker)

    def _lose(self, worker: _Worker) -> None:
        worker.close()
        del self._workers[worker.number]
        self._reservations.give(worker.place)
        cause, why = worker.end(0, None)
        self._events.append(WorkerLost(worker.number, self.now(), cause, why, worker.running))

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._reservations.clear()
        self._events.clear()
        self._leases.close()
