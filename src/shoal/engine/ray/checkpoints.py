"""Checkpoints that follow their item: SHOAL_CHECKPOINT_DIR on whichever node it runs, also after that node was lost.

Where all nodes are on one machine, it is a folder of the run's. Else it is on the node's disk and copied while the item
runs: to the storage, as versions of which only whole ones count, or as a parcel to the driver.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from shoal import namespaces
from shoal.engine.workers import parcels
from shoal.engine.workers.messages import Entry, Label, Parcel, Stored
from shoal.engine.workers.parcels import NotTaken, Parcels
from shoal.errors import FileError, ShoalError
from shoal.files import Storage
from shoal.files.mirror import mirror_down, mirror_up

LOOK_S = 2.0
"""How often a checkpoint is looked at. It is copied once it looks the same twice: nobody is writing it then."""
COMPLETE = ".complete"
"""After a version's number, the name of a file that says that it is whole."""
Signature = tuple[tuple[str, int, int], ...]
Version = tuple[int, int, int]
"""Turn of the driver, attempt, and which copy of that attempt's: the newest checkpoint has the highest."""


class Home(NamedTuple):
    """Where the checkpoints of a run are kept. With neither, they are sent to the driver."""

    path: str | None = None
    """A folder of the run's, where all nodes are on this machine."""
    storage: Storage | None = None
    prefix: str = ""
    turn: int = 0
    """Of the driver."""

    @property
    def at_driver(self) -> str:
        """The folder of the run that has what came to the driver: all of them, or those that the storage refused."""
        return "checkpoints" if self.storage is None else "unstored"


def home_of(root: str, storage: Storage | None, session: str, *, same_machine: bool) -> Home:
    """Of the run whose folder is `root`; `session` is the number of the driver's turn."""
    if same_machine:
        return Home(os.path.join(root, "checkpoints"))
    if storage is None:
        return Home()
    return Home(None, storage, f"runs/{os.path.basename(root)}/checkpoints", int(session))


class Checkpoints:
    """Of one worker, in its actor; each has the name that its item gives it. `report` takes a line to the worker's log.

    Where a checkpoint cannot be kept, that is reported, and the item goes on: only what it needs to begin can fail it.
    """

    def __init__(self, folder: str, home: Home, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._home = home
        self._report = report
        self._reported: set[str] = set()
        self._copying = asyncio.Lock()
        """One copy at a time: an item may end while it is being copied."""
        self._seen: Signature = ()
        self._kept: Signature = ()
        self._sending: Iterator[Parcel | Stored] | None = None
        self._versions: dict[str, Version] = {}
        """The last one of each item that was handed out here."""
        self._parcels = Parcels(lambda label: os.path.join(folder, label.name))
        self._given: set[str] = set()
        """Checkpoints that the driver gave: it has only what is newer than the storage's."""
        self._spoiled: dict[str, str] = {}
        """Why one that the driver gave could not be taken."""
        if home.path is not None:
            os.makedirs(home.path, exist_ok=True)
            with suppress(FileExistsError):  # Another worker on this node was quicker.
                os.symlink(home.path, folder)
        else:
            os.makedirs(folder, mode=0o700, exist_ok=True)

    # Before an item starts.

    def take(self, message: Parcel) -> None:
        """A block of what the driver has of an item that starts again."""
        name = message.label.name
        try:
            if self._parcels.take(message):
                self._given.add(name)
        except (NotTaken, OSError) as error:
            self._spoiled.setdefault(name, f"its checkpoint cannot be brought from the driver: {error}")

    async def bring(self, entries: Sequence[Entry]) -> dict[str, str]:
        """What earlier hand-outs of these items left in the storage. By checkpoint, why one cannot be had."""
        names = [entry.checkpoint for entry in entries]
        failed = {name: self._spoiled.pop(name) for name in names if name in self._spoiled}
        storage = self._home.storage
        if storage is None:
            return failed
        self._versions.update((entry.checkpoint, (self._home.turn, entry.attempt, 0)) for entry in entries)
        again = [entry for entry in entries if entry.attempt > 1 and entry.checkpoint not in failed]
        asked = [entry for entry in again if entry.checkpoint not in self._given]
        self._given.difference_update(entry.checkpoint for entry in again)
        brought = await asyncio.gather(
            *(asyncio.to_thread(self._download, storage, entry) for entry in asked)
        )
        told = {entry.checkpoint: why for entry, why in zip(asked, brought, strict=True) if why is not None}
        return {**failed, **told}

    def _download(self, storage: Storage, entry: Entry) -> str | None:
        """Why it failed, or None. Without what it left, an item would begin anew and nobody would know."""
        name = entry.checkpoint
        target = os.path.join(self._folder, name)
        shutil.rmtree(target, ignore_errors=True)
        try:
            with _outside():
                for known in dict.fromkeys((name, entry.id)):  # Shoal 0.1 knew them by the item's id alone.
                    versions = Versions(storage, f"{self._home.prefix}/{known}")
                    if (last := versions.newest()) is not None:
                        mirror_down(storage, versions.prefix(last), target)
                        # A run that was brought back from its copy may count anew what it had handed out before.
                        above = (last[0], last[1] + 1, 0)
                        self._versions[name] = max(self._versions[name], above)
                        break
        except (ShoalError, OSError) as error:
            shutil.rmtree(target, ignore_errors=True)
            return f"its checkpoint cannot be brought from {storage.url}: {error}"
        return None

    # While it runs, and when it is over.

    async def watch(self, running: Callable[[], str | None], changed: Callable[[], None]) -> None:
        """Keep what the running item writes, from time to time: in the storage, or by `sending`, which is said by
        `changed`. Runs until it is cancelled."""
        took_s = 0.0
        while True:
            await asyncio.sleep(max(LOOK_S, took_s))
            name = running()
            if name is None or self._home.path is not None:
                continue
            folder = os.path.join(self._folder, name)
            now = _signature(folder)
            if now and now == self._seen and now != self._kept and self._sending is None:
                began = time.monotonic()
                async with self._copying:
                    if running() == name:
                        await self._keep(name, folder, now)
                        changed()
                took_s = time.monotonic() - began
            self._seen = now

    async def _keep(self, name: str, folder: str, signature: Signature) -> None:
        storage = self._home.storage
        if storage is None:
            self._sending = self._unchanged(name, folder, signature)
            return
        with self._reporting(name):
            if await asyncio.to_thread(self._upload, storage, name, folder, signature):
                self._kept = signature
                self._sending = iter([Stored(name)])

    def sending(self) -> Parcel | Stored | None:
        """The next message that goes to the driver while its item runs; None when there is none left."""
        message = None if self._sending is None else next(self._sending, None)
        if message is None:
            self._sending = None
        return message

    def _unchanged(self, name: str, folder: str, signature: Signature) -> Iterator[Parcel]:
        """A parcel that is whole only if nobody wrote to its folder meanwhile."""
        for message in parcels.addressed(Label("checkpoint", name), parcels.blocks(folder, self._say)):
            if parcels.is_last(message) and _signature(folder) != signature:
                return
            yield message
        self._kept = signature

    async def leave(self, name: str) -> Iterator[Parcel | Stored]:
        """The item is over here: keep what it left. What is given has to be sent; after that, it is gone from here."""
        if self._home.path is not None:
            return iter(())
        folder = os.path.join(self._folder, name)
        if self._sending is None and not self._copying.locked() and not os.path.lexists(folder):
            self._versions.pop(name, None)  # As most items: it left nothing.
            self._seen = self._kept = ()
            return iter(())
        signature = _signature(folder)
        async with self._copying:
            self._sending = None
            unkept = bool(signature) and signature != self._kept
            storage = self._home.storage
            if storage is not None and unkept:
                with self._reporting(name, " It is sent to the driver instead."):
                    await asyncio.to_thread(self._upload, storage, name, folder)
                    unkept = False
        stored = storage is not None and bool(signature) and not unkept
        self._versions.pop(name, None)
        self._seen = self._kept = ()
        return self._parting(name, folder, sent=unkept, stored=stored)

    def _parting(self, name: str, folder: str, *, sent: bool, stored: bool) -> Iterator[Parcel | Stored]:
        if sent:
            yield from parcels.addressed(Label("checkpoint", name), parcels.blocks(folder, self._say))
        if stored:
            yield Stored(name)
        shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _reporting(self, name: str, instead: str = "") -> Iterator[None]:
        """A trouble becomes one line in the log: it is met again at every look."""
        try:
            yield
        except (ShoalError, OSError) as error:
            self._say(f"The checkpoint of {name} cannot be kept: {error}{instead}")

    def _say(self, trouble: str) -> None:
        if trouble not in self._reported:
            self._reported.add(trouble)
            self._report(trouble)

    def _upload(self, storage: Storage, name: str, folder: str, signature: Signature | None = None) -> bool:
        """A new version; whether it counts: not if the folder does not look like that any more at the end."""
        turn, attempt, copy = self._versions[name]
        self._versions[name] = version = (turn, attempt, copy + 1)
        versions = Versions(storage, f"{self._home.prefix}/{name}")
        with _outside():
            copied = mirror_up(folder, storage, versions.prefix(version), {})
            if copied.failed:
                raise FileError("; ".join(f"{key}: {why}" for key, why in copied.failed[:3]))
            if signature is not None and _signature(folder) != signature:
                return False
            versions.complete(version)
        return True


class Versions(NamedTuple):
    """The checkpoints of one item in a storage. Each is a prefix of its own, and counts once its mark is there."""

    storage: Storage
    item: str
    """Where they are, as the prefix of keys."""

    def prefix(self, version: Version) -> str:
        turn, attempt, copy = version
        return f"{self.item}/{turn}.{attempt}.{copy}" if copy else f"{self.item}/{attempt}"

    def newest(self) -> Version | None:
        """Of those that are whole."""
        marks = [each.key.rpartition("/")[2] for each in self.storage.list(self.item, f"*{COMPLETE}")]
        versions = [_version(mark.removesuffix(COMPLETE)) for mark in marks]
        return max((version for version in versions if version is not None), default=None)

    def complete(self, version: Version) -> None:
        """All of it is there: it counts, and older ones are of no use any more."""
        self.storage.write(f"{self.prefix(version)}{COMPLETE}", b"")
        with suppress(ShoalError, OSError):  # The next one removes them.
            self._remove_before(version)

    def _remove_before(self, version: Version) -> None:
        below = len(self.item) + 1
        old: list[tuple[bool, str]] = []
        for entry in self.storage.list(self.item, hidden=True):
            name = entry.key[below:].split("/")[0]
            known = _version(name.removesuffix(COMPLETE))
            if known is not None and known < version:
                old.append((not name.endswith(COMPLETE), entry.key))
        for _, key in sorted(old):  # The marks first: then none is half.
            self.storage.delete(key)
        if self.storage.url.startswith("/"):  # A file system keeps the folders.
            for name in {key[below:].split("/")[0] for is_file, key in old if is_file}:
                shutil.rmtree(os.path.join(self.storage.url, self.item, name), ignore_errors=True)


def _version(name: str) -> Version | None:
    """None for what is none. Shoal 0.1 had one number, the attempt: copy 0 of it."""
    parts = name.split(".")
    if not all(part.isdecimal() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if len(numbers) == 3:
        return numbers[0], numbers[1], numbers[2]
    return (0, numbers[0], 0) if len(numbers) == 1 else None


def restoring(folder: str, name: str) -> Iterator[Parcel] | None:
    """In the driver: the messages that give the checkpoint in this folder to the worker that goes on with the item."""
    parcels.recover(folder)
    if not os.path.isdir(folder):
        return None
    return parcels.addressed(Label("checkpoint", name), parcels.blocks(folder))


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
