"""Checkpoints that follow their item: SHOAL_CHECKPOINT_DIR on whichever node it runs, also after that node was lost.

Where all nodes see one folder, that is it. Else it is copied while the item runs: to the storage, or to the driver.
In a storage each attempt has its own: a node that was cut off and works on must not spoil what came after it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from shoal import namespaces
from shoal.engine.ray import shipping
from shoal.engine.workers.messages import Entry, Message
from shoal.errors import ShoalError
from shoal.files import Storage
from shoal.files.mirror import State, mirror_down, mirror_up

LOOK_S = 2.0
"""How often a checkpoint is looked at. It is copied once it looks the same twice: nobody is writing it then."""
COMPLETE = ".complete"
"""After an attempt's number, the name of a file that says that its checkpoint is whole."""
Signature = tuple[tuple[str, int, int], ...]


class Home(NamedTuple):
    """Where the checkpoints of a run are kept. With neither, they are sent to the driver."""

    path: str | None = None
    """A folder that every node sees."""
    storage: Storage | None = None
    prefix: str = ""


def home_of(root: str, storage: Storage | None, *, same_machine: bool) -> Home:
    """Of the run whose folder is `root`."""
    prefix = f"runs/{os.path.basename(root)}/checkpoints"
    if same_machine:
        return Home(os.path.join(root, "checkpoints"))
    if storage is not None and storage.url.startswith("/"):
        return Home(os.path.join(storage.url, prefix))
    return Home() if storage is None else Home(None, storage, prefix)


class Checkpoints:
    """Of one worker, in its actor. `send` takes messages to the driver, `report` a line to the worker's log.

    Where a checkpoint cannot be kept, that is reported, and the item goes on: only what it needs to begin can fail it.
    """

    def __init__(
        self, folder: str, home: Home, send: Callable[[Message], None], report: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._home = home
        self._send = send
        self._report = report
        self._reported: set[str] = set()
        self._copying = asyncio.Lock()
        """One copy at a time: an item may end while it is being copied."""
        self._seen: Signature = ()
        self._kept: Signature = ()
        self._states: dict[str, State] = {}
        self._attempts: dict[str, int] = {}
        """Which attempt each item that was handed out here is, as the storage counts."""
        if home.path is not None:
            os.makedirs(home.path, exist_ok=True)
            with suppress(FileExistsError):  # Another worker on this node was quicker.
                os.symlink(home.path, folder)
        else:
            os.makedirs(folder, mode=0o700, exist_ok=True)

    async def bring(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Before items start: what earlier hand-outs of them left in the storage. By item, why that cannot be had."""
        storage = self._home.storage
        if storage is None:
            return {}
        self._attempts.update((entry[3], entry[1]) for entry in entries)
        again = [entry[3] for entry in entries if entry[1] > 1]
        brought = await asyncio.gather(*(asyncio.to_thread(self._download, storage, item) for item in again))
        return {item: why for item, why in zip(again, brought, strict=True) if why is not None}

    def _download(self, storage: Storage, item: str) -> str | None:
        """Why it failed, or None. Without what it left, an item would begin anew and nobody would know."""
        target = os.path.join(self._folder, item)
        shutil.rmtree(target, ignore_errors=True)
        try:
            with _outside():
                attempts = Attempts(storage, f"{self._home.prefix}/{item}")
                last = attempts.last_complete()
                if last is not None:
                    mirror_down(storage, attempts.prefix(last), target)
                    # A run that was brought back from its copy may count anew what it had handed out before.
                    self._attempts[item] = max(self._attempts[item], last + 1)
        except (ShoalError, OSError) as error:
            shutil.rmtree(target, ignore_errors=True)
            return f"its checkpoint cannot be brought from {storage.url}: {error}"
        return None

    def unpack(self, item: str, archive: str) -> None:
        """What the driver has of an item that starts again."""
        target = os.path.join(self._folder, item)
        shutil.rmtree(target, ignore_errors=True)
        with self._reporting(item, "unpacked"):
            shipping.extract(base64.b64decode(archive), target)

    async def watch(self, running: Callable[[], str | None]) -> None:
        """Keep what the running item writes, from time to time. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            item = running()
            if item is None or self._home.path is not None:
                continue
            now = _signature(os.path.join(self._folder, item))
            if now and now == self._seen and now != self._kept:
                async with self._copying:
                    if running() == item:
                        with self._reporting(item, "kept"):
                            await self._keep(item)
                            self._kept = now
            self._seen = now

    async def leave(self, item: str) -> None:
        """The item is over here: keep what it left, and remove it from this node."""
        folder = os.path.join(self._folder, item)
        if self._home.path is None and _signature(folder):
            async with self._copying:
                with self._reporting(item, "kept"):
                    await self._keep(item)
            self._states.pop(item, None)
            self._seen = self._kept = ()
            shutil.rmtree(folder, ignore_errors=True)
        self._attempts.pop(item, None)

    @contextmanager
    def _reporting(self, item: str, what: str) -> Iterator[None]:
        """A trouble becomes one line in the log: it is met again at every look."""
        try:
            yield
        except (ShoalError, OSError) as error:
            self._say(f"The checkpoint of {item} cannot be {what}: {error}")

    def _say(self, trouble: str) -> None:
        if trouble not in self._reported:
            self._reported.add(trouble)
            self._report(trouble)

    async def _keep(self, item: str) -> None:
        folder = os.path.join(self._folder, item)
        if self._home.storage is not None:
            await asyncio.to_thread(self._upload, self._home.storage, item, folder)
        else:
            left_out: list[str] = []
            archive = await asyncio.to_thread(shipping.archive_of, folder, left_out.append)
            for line in left_out:
                self._say(line)
            self._send(["checkpoint", item, base64.b64encode(archive).decode()])

    def _upload(self, storage: Storage, item: str, folder: str) -> None:
        attempt = self._attempts[item]
        attempts = Attempts(storage, f"{self._home.prefix}/{item}")
        before = self._states.get(item)
        with _outside():
            self._states[item] = mirror_up(
                folder, storage, attempts.prefix(attempt), before or {}, remove=True
            ).state
            if before is None:
                attempts.complete(attempt)


class Attempts(NamedTuple):
    """The checkpoints of one item in a storage, one of each attempt. Only a complete one counts."""

    storage: Storage
    item: str
    """Where they are, as the prefix of keys."""

    def prefix(self, attempt: int) -> str:
        return f"{self.item}/{attempt}"

    def last_complete(self) -> int | None:
        """The newest attempt that left a whole checkpoint."""
        marks = [each.key.rpartition("/")[2] for each in self.storage.list(self.item, f"*{COMPLETE}")]
        numbers = [mark.removesuffix(COMPLETE) for mark in marks]
        return max((int(number) for number in numbers if number.isdecimal()), default=None)

    def complete(self, attempt: int) -> None:
        """All of it is there for the first time: those of earlier attempts are of no use any more."""
        self.storage.write(f"{self.prefix(attempt)}{COMPLETE}", b"")
        if attempt == 1:
            return
        earlier = {str(number) for number in range(1, attempt)}
        keys = [entry.key for entry in self.storage.list(self.item, hidden=True)]
        below = len(self.item) + 1
        old = [key for key in keys if key[below:].split("/")[0].removesuffix(COMPLETE) in earlier]
        for key in sorted(
            old, key=lambda key: not key.endswith(COMPLETE)
        ):  # The marks first: then none is half.
            self.storage.delete(key)


def replace(root: str, message: Message) -> None:
    """In the driver: a checkpoint that came becomes the one that is kept, whole or not at all."""
    target = os.path.join(root, "checkpoints", message[1])
    shutil.rmtree(f"{target}.coming", ignore_errors=True)
    shipping.extract(base64.b64decode(message[2]), f"{target}.coming")
    shutil.rmtree(target, ignore_errors=True)
    os.rename(f"{target}.coming", target)


def restoring(root: str, item: str) -> list[Any] | None:
    """In the driver: the message that gives a checkpoint to the worker that goes on with the item."""
    folder = os.path.join(root, "checkpoints", item)
    if not os.path.isdir(folder):
        return None
    return ["restore", item, base64.b64encode(shipping.archive_of(folder)).decode()]


def _outside() -> Any:
    """The storage may not be reachable from where Ray is kept in."""
    return namespaces.inside(os.environ.get(namespaces.OUTSIDE))


def _signature(folder: str) -> Signature:
    """What it looks like; changes when a file in it does."""
    found = []
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            try:
                stat = os.lstat(path)
            except OSError:
                continue
            found.append((os.path.relpath(path, folder), stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(found))
