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
from typing import Any

import ray

from shoal import namespaces
from shoal.engine.ray import holding, shipping
from shoal.engine.ray.checkpoints import Checkpoints, Home
from shoal.engine.workers import messages, packages, parcels
from shoal.engine.workers.connection import Connection
from shoal.engine.workers.spawning import ZygoteClient
from shoal.errors import ShoalError
from shoal.files import make_private, own_folder
from shoal.model import ItemState
from shoal.model.marks import NODE_VARIABLE
from shoal.model.packages import Packages

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


class WorkerActor:
    """One worker. `events` is asked for once and streams until the process is gone; `send` reaches the process."""

    def __init__(
        self,
        request: dict[str, Any],
        run: str,
        package: shipping.Package | None,
        environment: Mapping[str, str] | None = None,
        wanted: Packages | None = None,
        checkpoints: Home = Home(),  # noqa: B008 - a value that nobody can change
    ) -> None:
        """`wanted` was installed on this node before (see `engine.ray.packages`): here it is only found again."""
        self._worker: int = request["worker"]
        # Monotonic time means something only on its own machine.
        self._clock_offset = time.time() - time.monotonic()
        self._changed = asyncio.Event()
        self._gathered: list[messages.Message] = []
        self._log_sent = 0
        self._running: str | None = None
        """The checkpoint of the item that runs."""
        self._names: dict[int, tuple[str, str]] = {}
        self._ahead = 0
        """Items that were handed to the process and have not ended."""
        self._status: dict[str, Any] | None = None
        self._failed: str | None = None
        """Why the process could not be started."""
        try:
            self._begin(request, run, package, environment, wanted, checkpoints)
        except (ShoalError, OSError) as error:
            self._failed = f"{error} {getattr(error, 'hint', None) or ''}".strip()

    def _begin(
        self,
        request: dict[str, Any],
        run: str,
        package: shipping.Package | None,
        environment: Mapping[str, str] | None,
        wanted: Packages | None,
        checkpoints: Home,
    ) -> None:
        base = _base()
        self._root = os.path.join(base, "runs", run)
        self._in_use = holding.hold(self._root)
        holding.remove_old(os.path.join(base, "runs"), FORGOTTEN_S)
        for name in ("logs", "items"):
            os.makedirs(os.path.join(self._root, name), mode=0o700, exist_ok=True)
        self._log = os.path.join(self._root, request["log"])
        self._checkpoints = Checkpoints(os.path.join(self._root, "checkpoints"), checkpoints, self._report)
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours)
        with namespaces.inside(os.environ.get(namespaces.OUTSIDE)):  # What items do needs the network.
            python = packages.ensure(wanted).python if wanted is not None else None
            given = _environment() if environment is None else environment
            self._zygote = ZygoteClient(environment=given, python=python)
        if package is not None:
            folder = shipping.unpack(package, os.path.join(base, "folders"))
            request = {**request, "factory": {**request["factory"], "folder": folder}}
        here: dict[str, Any] = {"log": self._log, "root": self._root, "clock_offset": self._clock_offset}
        # Which GPUs are this worker's, only Ray knows: other programs on the node have theirs from it, too.
        here["devices"] = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        here["address"] = ray.util.get_node_ip_address()
        with theirs:
            self._zygote.spawn(self._worker, request["factory"]["target"], theirs)
        self._connection.send({**request, **here})

    def _now(self) -> float:
        """On this node's clock. The driver finds out how far that is from its own."""
        return self._clock_offset + time.monotonic()

    async def send(self, message: list[Any]) -> None:
        """Pass a message to the process; `kill` is for the process that started it, others are for this actor."""
        if self._failed is not None:
            return
        if message[0] == "kill":
            self._zygote.kill(self._worker)
            return
        if message[0] == "parcel":
            self._checkpoints.take(message)
            return
        if message[0] == "note":
            self._report(message[1])
            return
        if message[0] == "chunk":
            self._names.update(messages.names(message[1]))
            self._ahead += len(message[1])
            failed = await self._checkpoints.bring(message[1])
            if failed:
                message = ["chunk", self._refuse(message[1], failed)]
                if not message[1]:
                    return
        self._connection.send(message)
        await self._flush()

    async def _flush(self) -> None:
        while self._connection.backlog and self._connection.open:
            await asyncio.sleep(0.001)
            self._connection.flush()

    def _refuse(self, entries: Sequence[messages.Entry], failed: Mapping[str, str]) -> list[messages.Entry]:
        """The items that can begin. The others have failed without ever reaching the process."""
        for entry in entries:
            if (why := failed.get(entry[6])) is not None:
                self._ahead -= 1
                at = self._now()
                self._tell(
                    messages.ended(entry[0], entry[1], at, ItemState.FAILED, {}, why, 0.0, 0, 0, kept=False)
                )
        return [entry for entry in entries if entry[6] not in failed]

    async def events(self) -> AsyncIterator[list[messages.Message]]:
        """Batches of messages, the last of them `exit`. What an item wrote and left travels before its end.

        Each begins with `now`, the time here. It goes on when the driver has taken most of what was given.
        """
        if self._failed is not None:
            yield [["now", self._now()], messages.failed_start(self._failed), ["exit", None, self._failed]]
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(self._zygote.socket, self._hear_zygote)
        await self._flush()
        told_at = 0.0
        watching = asyncio.create_task(self._checkpoints.watch(lambda: self._running, self._changed.set))
        try:
            while self._status is None:
                await self._something()
                until = told_at + BUSY_S
                while True:
                    # Looked at now and then, not for every message: the process needs the time more.
                    await asyncio.sleep(BATCH_S)
                    self._hear()
                    if self._status is not None or self._ahead <= 0 or loop.time() >= until:
                        break
                async for batch in self._batches():
                    yield batch
                    told_at = loop.time()
            self._hear()
            async for batch in self._batches():
                yield batch
            self._leave_folder()
            yield [["now", self._now()], ["exit", self._status["status"], self._status["why"]]]
        finally:
            watching.cancel()
            self._zygote.close()

    def _leave_folder(self) -> None:
        """All that was in it has travelled. Before the driver hears of the end, as it ends this actor then."""
        self._in_use.close()
        holding.remove_unused(self._root)

    async def _batches(self) -> AsyncIterator[list[messages.Message]]:
        """All that there is to tell now: of items that are over, what they left goes before their end."""
        left = [await self._checkpoints.leave(name) for name in self._over()]
        gathered, self._gathered = self._gathered, []
        told = self._told(left, gathered)
        for batch in parcels.batches(told):
            yield [["now", self._now()], *batch]

    def _told(
        self, left: Iterable[Iterator[messages.Message]], gathered: list[messages.Message]
    ) -> Iterator[messages.Message]:
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
        over = [name for message in self._gathered if (name := self._checkpoint(message, "ended"))]
        started = [name for message in self._gathered if (name := self._checkpoint(message, "started"))]
        self._running = started[-1] if started else self._running
        if self._status is not None and self._running is not None and self._running not in over:
            over.append(self._running)  # It died with its process.
        if self._running in over:
            self._running = None
        return over

    def _checkpoint(self, message: messages.Message, kind: str) -> str | None:
        """Of the item that a message of this kind speaks of; user code may have written one about no item of ours."""
        return self._names[message[1]][1] if message[0] == kind and message[1] in self._names else None

    def _tell(self, message: messages.Message) -> None:
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
        if self._status is None and not self._gathered:  # It may have come while the last batch was taken.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOG_S)
        self._changed.clear()
        loop.remove_reader(self._connection.socket)

    def _hear(self) -> None:
        told = self._connection.receive()
        if not self._connection.open and self._status is None:
            with suppress(OSError):  # It said what is no message, or only closed its socket.
                self._zygote.kill(self._worker)
        self._ahead -= messages.settled(told)
        self._gathered += told

    def _hear_zygote(self) -> None:
        told = self._zygote.receive()
        if told is None:
            self._status = {"status": None, "why": "the process that starts workers was killed"}
            asyncio.get_running_loop().remove_reader(self._zygote.socket)
        else:
            self._status = next((answer for answer in told if "exit" in answer), None)
        self._changed.set()

    def _new_log(self) -> Iterator[messages.Message]:
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
                yield ["log", self._log_sent, block]
                self._log_sent += len(block)

    def _left_files(self, gathered: list[messages.Message]) -> Iterator[messages.Message]:
        """The folders of items that ended and left something in them; gone here once they travel."""
        for seq in messages.kept(gathered):
            if seq not in self._names:
                continue
            item, _ = self._names[seq]
            folder = os.path.join(self._root, "items", item)
            label = parcels.Label("files", item, seq)
            yield from parcels.addressed(label, parcels.blocks(folder, self._report))
            shutil.rmtree(folder, ignore_errors=True)


def _base() -> str:
    """Where things are kept on this node: with the node's own, where Shoal started it, so that they go with it."""
    of_node = os.environ.get(NODE_VARIABLE)
    return make_private(os.path.join(of_node, "work") if of_node else own_folder(tempfile.gettempdir()))


def _environment() -> Mapping[str, str]:
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
