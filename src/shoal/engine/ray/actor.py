"""The actor behind a worker on a Ray cluster: starts a worker process on its node and passes messages on.

User code runs in that process, not in the actor: it is started, watched, limited and ended exactly as on a laptop.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import ray

from shoal import namespaces
from shoal.engine.ray import folder_locks, shipment
from shoal.engine.ray.checkpoints import Checkpoints, Home
from shoal.engine.workers import messages, packages, parcels
from shoal.engine.workers.worker_links import Connection
from shoal.engine.workers.zygote_client import ZygoteClient
from shoal.errors import ShoalError
from shoal.files import make_private, own_folder
from shoal.model import ItemState
from shoal.model.marks import NODE_VARIABLE
from shoal.model.node import Packages

LOG_S = 1.0
"""How often the log of a worker that says nothing is looked at."""
IN_TURN = 8
"""Blocks of the checkpoint of an item that runs that travel before its worker is listened to again."""
BATCH_S = 0.002
"""How long messages are gathered before they travel together, when little is told or the worker has nothing left."""
BUSY_S = 0.02
"""A worker that tells much is heard this often: each batch costs every process on its way a turn."""
FORGOTTEN_S = 3600.0
"""What actors that were killed left on their node is removed by the next one, not before this."""
KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",  # In many images the driver of a GPU is found by it alone.
)
"""What items on a cluster get of the environment there; the rest is what the workload's `env:` says."""


class _Names(NamedTuple):
    """Of an item that was handed over."""

    item: str
    checkpoint: str


class WorkerActor:
    """One worker. `events` is asked for once and streams until the process is gone; `send` reaches the process."""

    def __init__(
        self,
        setup: messages.Setup,
        run: str,
        package: shipment.Package | None,
        environment: Mapping[str, str] | None = None,
        wanted: Packages | None = None,
        checkpoints: Home = Home(),  # noqa: B008 - a value that nobody can change
    ) -> None:
        """`wanted` was installed on this node before (see `engine.ray.node_packages`): here it is only found again."""
        self._worker = setup.worker
        # Monotonic time means something only on its own machine.
        self._clock_offset = time.time() - time.monotonic()
        self._changed = asyncio.Event()
        self._gathered: list[messages.Said] = []
        self._log_sent = 0
        self._running: str | None = None
        """The checkpoint of the item that runs."""
        self._names: dict[int, _Names] = {}
        self._ahead = 0
        """Items that were handed to the process and have not ended."""
        self._gone: messages.Exit | None = None
        """How the process ended."""
        self._failed: str | None = None
        """Why the process could not be started."""
        try:
            self._begin(setup, run, package, environment, wanted, checkpoints)
        except (ShoalError, OSError) as error:
            self._failed = f"{error} {getattr(error, 'hint', None) or ''}".strip()

    def _begin(
        self,
        setup: messages.Setup,
        run: str,
        package: shipment.Package | None,
        environment: Mapping[str, str] | None,
        wanted: Packages | None,
        checkpoints: Home,
    ) -> None:
        base = _base()
        self._root = os.path.join(base, "runs", run)
        self._in_use = folder_locks.hold(self._root)
        folder_locks.remove_old(os.path.join(base, "runs"), FORGOTTEN_S)
        for name in ("logs", "items"):
            os.makedirs(os.path.join(self._root, name), mode=0o700, exist_ok=True)
        self._log = os.path.join(self._root, setup.log)
        self._checkpoints = Checkpoints(os.path.join(self._root, "checkpoints"), checkpoints, self._report)
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours)
        with namespaces.inside(os.environ.get(namespaces.OUTSIDE)):  # What items do needs the network.
            python = packages.ensure(wanted).python if wanted is not None else None
            given = _environment() if environment is None else environment
            self._zygote = ZygoteClient(environment=given, python=python)
        if package is not None:
            folder = shipment.unpack(package, os.path.join(base, "folders"))
            setup = setup._replace(factory=setup.factory._replace(folder=folder))
        # Which GPUs are this worker's, only Ray knows: other programs on the node have theirs from it, too.
        devices = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        setup = setup._replace(
            log=self._log,
            root=self._root,
            clock_offset=self._clock_offset,
            devices=devices,
            address=ray.util.get_node_ip_address(),
        )
        with theirs:
            self._zygote.spawn(self._worker, setup.factory.target, theirs)
        self._connection.send(messages.encode(setup))

    def _now(self) -> float:
        """On this node's clock. The driver finds out how far that is from its own."""
        return self._clock_offset + time.monotonic()

    async def send(self, message: messages.Given) -> None:
        """Pass a message to the process; `kill` is for the process that started it, others are for this actor."""
        if self._failed is not None:
            return
        if isinstance(message, messages.Kill):
            self._zygote.kill(self._worker)
        elif isinstance(message, messages.Parcel):
            self._checkpoints.take(message)
        elif isinstance(message, messages.Note):
            self._report(message.line)
        elif isinstance(message, messages.Chunk):
            await self._hand_over([messages.Entry._make(entry) for entry in message.entries])
        else:
            await self._order(message)

    async def _hand_over(self, entries: Sequence[messages.Entry]) -> None:
        self._names.update((entry.seq, _Names(entry.id, entry.checkpoint)) for entry in entries)
        self._ahead += len(entries)
        failed = await self._checkpoints.bring(entries)
        left = self._refuse(entries, failed) if failed else entries
        if left:
            await self._order(messages.Chunk(left))

    async def _order(self, order: messages.Order) -> None:
        self._connection.send(messages.encode(order))
        await self._flush()

    async def _flush(self) -> None:
        while self._connection.backlog and self._connection.open:
            await asyncio.sleep(0.001)
            self._connection.flush()

    def _refuse(self, entries: Sequence[messages.Entry], failed: Mapping[str, str]) -> list[messages.Entry]:
        """The items that can begin. The others have failed without ever reaching the process."""
        for entry in entries:
            if (why := failed.get(entry.checkpoint)) is not None:
                self._ahead -= 1
                at = self._now()
                self._tell(
                    messages.Ended(
                        entry.seq, entry.attempt, at, ItemState.FAILED, {}, why, 0.0, 0, 0, kept=False
                    )
                )
        return [entry for entry in entries if entry.checkpoint not in failed]

    async def events(self) -> AsyncIterator[list[tuple[Any, ...]]]:
        """Batches of packed messages, the last of them `exit`. What an item wrote and left travels before its end.

        Each begins with `now`, the time here. It goes on when the driver has taken most of what was given.
        """
        if self._failed is not None:
            failed = messages.FailedStart(self._failed)
            yield self._packed([failed, messages.Exit(None, self._failed)])
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(self._zygote.socket, self._hear_zygote)
        await self._flush()
        told_at = 0.0
        watching = asyncio.create_task(self._checkpoints.watch(lambda: self._running, self._changed.set))
        try:
            while self._gone is None:
                await self._something()
                until = told_at + BUSY_S
                while True:
                    # Looked at now and then, not for every message: the process needs the time more.
                    await asyncio.sleep(BATCH_S)
                    self._hear()
                    if self._gone is not None or self._ahead <= 0 or loop.time() >= until:
                        break
                async for batch in self._batches():
                    yield batch
                    told_at = loop.time()
            self._hear()
            async for batch in self._batches():
                yield batch
            self._leave_folder()
            yield self._packed([self._gone])
        finally:
            watching.cancel()
            self._zygote.close()

    def _leave_folder(self) -> None:
        """All that was in it has travelled. Before the driver hears of the end, as it ends this actor then."""
        self._in_use.close()
        folder_locks.remove_unused(self._root)

    async def _batches(self) -> AsyncIterator[list[tuple[Any, ...]]]:
        """All that there is to tell now: of items that are over, what they left goes before their end."""
        left = [await self._checkpoints.leave(name) for name in self._over()]
        gathered, self._gathered = self._gathered, []
        told = self._told(left, gathered)
        for batch in parcels.batches(told):
            yield self._packed(batch)

    def _packed(self, batch: list[messages.Passed]) -> list[tuple[Any, ...]]:
        return parcels.packed([messages.Now(self._now()), *batch])

    def _told(
        self, left: Iterable[Iterator[messages.Freight]], gathered: list[messages.Said]
    ) -> Iterator[messages.Passed]:
        yield from self._new_log()
        for checkpoint in left:
            yield from checkpoint
        yield from self._left_files(gathered)
        yield from self._new_log()  # What was to be said of all that.
        yield from gathered
        for _ in range(IN_TURN):
            if (message := self._checkpoints.sending()) is None:
                return
            self._changed.set()
            yield message

    def _over(self) -> list[str]:
        """The checkpoints of items that have ended here."""
        over = [name for message in self._gathered if (name := self._checkpoint(message, messages.Ended))]
        started = [
            name for message in self._gathered if (name := self._checkpoint(message, messages.Started))
        ]
        self._running = started[-1] if started else self._running
        if self._gone is not None and self._running is not None and self._running not in over:
            over.append(self._running)  # It died with its process.
        if self._running in over:
            self._running = None
        return over

    def _checkpoint(
        self, message: messages.Said, kind: type[messages.Started | messages.Ended]
    ) -> str | None:
        """Of the item that a message of this kind speaks of; user code may have written one about no item of ours."""
        known = self._names.get(message.seq) if isinstance(message, kind) else None
        return None if known is None else known.checkpoint

    def _tell(self, message: messages.Said) -> None:
        self._gathered.append(message)
        self._changed.set()

    def _report(self, line: str) -> None:
        """In the worker's own log, where people look when an item went wrong."""
        with suppress(OSError), open(self._log, "a", encoding="utf-8") as file:
            file.write(f"shoal: {line}\n")

    async def _something(self) -> None:
        """Wait until there is something to tell, or the process is gone; else until its log should be looked at."""
        loop = asyncio.get_running_loop()
        if self._connection.open:
            loop.add_reader(self._connection.socket, self._changed.set)
        if self._gone is None and not self._gathered:  # It may have come while the last batch was taken.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOG_S)
        self._changed.clear()
        loop.remove_reader(self._connection.socket)

    def _hear(self) -> None:
        told = self._connection.receive()
        if not self._connection.open and self._gone is None:
            with suppress(OSError):  # It said what is no message, or only closed its socket.
                self._zygote.kill(self._worker)
        self._ahead -= messages.settled(told)
        self._gathered += told

    def _hear_zygote(self) -> None:
        told = self._zygote.receive()
        if told is None:
            self._gone = messages.Exit(None, "the process that starts workers was killed")
            asyncio.get_running_loop().remove_reader(self._zygote.socket)
        else:
            self._gone = next((messages.Exit(end.status, end.why) for end in told), None)
        self._changed.set()

    def _new_log(self) -> Iterator[messages.Log]:
        """What was written to the log since the last look."""
        try:
            end = os.stat(self._log).st_size
        except FileNotFoundError:  # Killed before it had begun.
            return
        if end <= self._log_sent:
            return
        with open(self._log, "rb") as file:
            file.seek(self._log_sent)
            while self._log_sent < end and (block := file.read(parcels.BLOCK_BYTES)):
                yield messages.Log(self._log_sent, block)
                self._log_sent += len(block)

    def _left_files(self, gathered: list[messages.Said]) -> Iterator[messages.Parcel]:
        """The folders of items that ended and left something in them; gone here once they travel."""
        ended = [message for message in gathered if isinstance(message, messages.Ended) and message.kept]
        for seq in [message.seq for message in ended if message.seq in self._names]:
            item = self._names[seq].item
            folder = os.path.join(self._root, "items", item)
            label = messages.Label("files", item, seq)
            yield from parcels.addressed(label, parcels.blocks(folder, self._report))
            shutil.rmtree(folder, ignore_errors=True)


def _base() -> str:
    """Where things are kept on this node: with the node's own, where Shoal started it, so that they go with it."""
    of_node = os.environ.get(NODE_VARIABLE)
    return make_private(os.path.join(of_node, "work") if of_node else own_folder(tempfile.gettempdir()))


def _environment() -> Mapping[str, str]:
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
