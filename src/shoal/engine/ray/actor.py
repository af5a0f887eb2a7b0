"""The actor behind a worker on a Ray cluster: starts a worker process on its node and passes messages on.

User code runs in that process, not in the actor: it is started, watched, limited and ended exactly as on a laptop.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

from shoal.engine.workers import messages
from shoal.engine.workers.connection import Connection
from shoal.engine.workers.spawning import ZygoteClient

LOG_BLOCK = 1 << 20
"""Most bytes of a log that travel at once."""
BATCH_S = 0.002
"""How long messages are gathered before they travel together."""


class WorkerActor:
    """One worker. `events` is asked for once and streams until the process is gone; `send` reaches the process."""

    def __init__(self, request: dict[str, Any], root: str) -> None:
        self._root = root
        for name in ("logs", "items", "checkpoints"):
            os.makedirs(os.path.join(root, name), exist_ok=True)
        self._log = os.path.join(root, request["log"])
        self._log_sent = 0
        self._changed = asyncio.Event()
        self._gathered: list[messages.Message] = []
        self._status: dict[str, Any] | None = None
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours)
        self._zygote = ZygoteClient()
        with theirs:
            self._zygote.spawn({**request, "log": self._log, "root": root}, theirs)
        self._worker: int = request["worker"]

    async def send(self, message: list[Any]) -> None:
        """Pass a message to the process; `kill` is for the process that started it."""
        if message[0] == "kill":
            self._zygote.kill(self._worker)
            return
        self._connection.send(message)
        while self._connection.backlog:
            await asyncio.sleep(0.001)
            self._connection.flush()

    async def events(self) -> AsyncIterator[list[messages.Message]]:
        """Batches of messages, the last of them `exit`. What an item wrote to its log travels before its end."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.socket, self._hear)
        loop.add_reader(self._zygote.socket, self._hear_zygote)
        try:
            while self._status is None:
                await self._changed.wait()
                await asyncio.sleep(BATCH_S)
                self._changed.clear()
                for batch in self._batches():
                    yield batch
            self._hear()
            for batch in self._batches():
                yield batch
            yield [["exit", self._status["status"], self._status["why"]]]
        finally:
            self._zygote.close()

    def _hear(self) -> None:
        self._gathered += self._connection.receive()
        if not self._connection.open:
            asyncio.get_running_loop().remove_reader(self._connection.socket)
        self._changed.set()

    def _hear_zygote(self) -> None:
        told = self._zygote.receive()
        if told is None:
            self._status = {"status": None, "why": "the process that starts workers was killed"}
            asyncio.get_running_loop().remove_reader(self._zygote.socket)
        else:
            self._status = next((answer for answer in told if "exit" in answer), None)
        self._changed.set()

    def _batches(self) -> list[list[messages.Message]]:
        gathered, self._gathered = self._gathered, []
        return (
            [*([["log", base64.b64encode(block).decode()]] for block in self._new_log()), gathered]
            if (gathered)
            else []
        )

    def _new_log(self) -> list[bytes]:
        """What was written to the log since the last look."""
        blocks = []
        with open(self._log, "rb") as file:
            file.seek(self._log_sent)
            while block := file.read(LOG_BLOCK):
                self._log_sent += len(block)
                blocks.append(block)
        return blocks
