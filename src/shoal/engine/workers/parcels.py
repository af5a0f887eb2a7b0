"""Parcels: folders that travel between a node and the run's home in blocks of bounded size, with a digest at the end.

Knows no transport. What arrives is written aside and takes its name when it is whole: half a parcel leaves nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple, get_args

from shoal.engine.workers.messages import Label, Log, Parcel, Passed

BLOCK_BYTES = 1 << 20
"""Most bytes of content that a block has."""
PIECES = 1000
"""Most pieces that a block has: many small files travel together."""
_LARGE = (Parcel, Log)
_TYPES: tuple[Any, ...] = get_args(Passed)
_NUMBERS = {kind: number for number, kind in enumerate(_TYPES)}
_REFUSALS = (
    *(errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ, errno.EPERM, errno.EACCES),
    errno.ENOENT,  # Somebody else removed what had come so far.
    *(errno.ENOTSUP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
)
"""What a file system says of a name that it will not take, however often it is asked."""


class Folder(NamedTuple):
    path: str


class Link(NamedTuple):
    path: str
    target: str


class File(NamedTuple):
    path: str
    mode: int
    modified_s: float


class Data(NamedTuple):
    """Of the file before."""

    content: bytes


class Drop(NamedTuple):
    """The file before could not be read to its end."""


class Seal(NamedTuple):
    """The parcel is whole."""

    digest: str


Piece = Folder | Link | File | Data | Drop | Seal
Block = list[Piece]


class NotTaken(Exception):  # noqa: N818 - what went wrong is the name
    """This parcel cannot be kept here, however often it is tried. The message says why."""


def blocks(folder: str, report: Callable[[str], None] = lambda line: None) -> Iterator[Block]:
    """A folder, a block at a time. What makes no sense elsewhere, or cannot be read, is reported and left out."""
    digest = hashlib.blake2b(digest_size=16)
    block: Block = []
    size = 0
    for piece in _pieces(folder, report):
        more = len(piece.content) if isinstance(piece, Data) else 0
        if block and (size + more > BLOCK_BYTES or len(block) == PIECES):
            yield block
            block, size = [], 0
        _update(digest, piece)
        block.append(piece)
        size += more
    yield [*block, Seal(digest.hexdigest())]


def is_last(message: Parcel) -> bool:
    """Whether the parcel is whole with this message."""
    return isinstance(message.block[-1], Seal)


def addressed(label: Label, content: Iterable[Block]) -> Iterator[Parcel]:
    """The messages that carry a parcel."""
    for number, block in enumerate(content):
        yield Parcel(label, number, block)


def batches(told: Iterable[Passed]) -> Iterator[list[Passed]]:
    """Messages as they travel: together, up to about the size of a block. Taken from `told` only as they go."""
    batch: list[Passed] = []
    size = 0
    for message in told:
        batch.append(message)
        if type(message) in _LARGE:
            size += _content_bytes(message)
        if size >= BLOCK_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _content_bytes(message: Passed) -> int:
    if isinstance(message, Parcel):
        return sum(len(piece.content) for piece in message.block if isinstance(piece, Data))
    return len(message.data) if isinstance(message, Log) else 0


def packed(told: Iterable[Passed]) -> list[tuple[Any, ...]]:
    """Messages as plain tuples, which are pickled several times faster than named ones."""
    return [(_NUMBERS[type(message)], *message) for message in told]


def unpacked(told: Iterable[tuple[Any, ...]]) -> list[Passed]:
    return [tuple.__new__(_TYPES[number], fields) for number, *fields in told]


def _update(digest: Any, piece: Piece) -> None:
    for part in (type(piece).__name__, *piece):
        data = part if isinstance(part, bytes) else os.fsencode(str(part))
        digest.update(b"%d:" % len(data))
        digest.update(data)


def _pieces(folder: str, report: Callable[[str], None]) -> Iterator[Piece]:

    def unread(error: OSError) -> None:
        report(f"{error.filename} cannot be taken along: {error.strerror or error}")

    for base, folders, names in os.walk(folder, onerror=unread):
        for name in sorted(folders + names):
            path = os.path.join(base, name)
            try:
                yield from _of(path, os.path.relpath(path, folder))
            except OSError as error:
                report(f"{path} cannot be taken along: {error.strerror or error}")


def _of(path: str, name: str) -> Iterator[Piece]:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(path)
        if not _stays(name, target):
            raise OSError("it is a link that leads elsewhere")
        yield Link(name, target)
    elif stat.S_ISDIR(found.st_mode):
        yield Folder(name)
    elif not stat.S_ISREG(found.st_mode):
        raise OSError("it is no file")
    else:
        with open(path, "rb", buffering=0) as file:
            yield File(name, stat.S_IMODE(found.st_mode), found.st_mtime)
            try:
                while data := file.read(BLOCK_BYTES):
                    yield Data(data)
            except OSError:
                yield Drop()
                raise


def _stays(name: str, target: str) -> bool:
    """Whether a link of this name leads to a place in its folder, whatever other links there are."""
    parts = target.split("/")
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return not target.startswith("/") and ".." not in parts[up:] and up <= name.count("/")


class Arrival:
    """One parcel on its way in. After an `OSError` the same block may be given again: it goes on where it was."""

    def __init__(self, target: str) -> None:
        recover(target)
        self._target = target
        self._aside = _beside(target, "coming")
        self._digest = hashlib.blake2b(digest_size=16)
        self._links: list[Link] = []
        self._file: IO[bytes] | None = None
        self._last = ""
        """The path of that file, or of the one before."""
        self._modified_s = 0.0
        self._written = 0
        """Bytes of that file."""
        self._number = 0
        self._taken = 0
        """Pieces of the block of that number."""
        self._whole = False
        shutil.rmtree(self._aside, ignore_errors=True)
        os.makedirs(self._aside)

    def take(self, number: int, block: Block) -> bool:
        """Write a block down; whether the parcel is whole, and in its place. Raises `NotTaken`, or `OSError`."""
        if number != self._number:
            raise NotTaken(f"block {self._number} of it is missing")
        while self._taken < len(block):
            piece = block[self._taken]
            self._put(piece)
            _update(self._digest, piece)
            self._taken += 1
        self._number, self._taken = number + 1, 0
        return self._whole

    def discard(self) -> None:
        """Leave nothing of it."""
        if self._file is not None:
            self._file.close()
        if not self._whole:
            shutil.rmtree(self._aside, ignore_errors=True)

    def _put(self, piece: Piece) -> None:
        if isinstance(piece, Data):
            self._write(piece.content)
            return
        self._close()
        if isinstance(piece, File):
            self._modified_s, self._written = piece.modified_s, 0
            self._last = self._path(piece.path)
            self._file = open(self._last, "wb", buffering=0)  # noqa: SIM115 - the next pieces are for it
            os.chmod(self._last, piece.mode & 0o755 | 0o600)
        elif isinstance(piece, Folder):
            os.makedirs(self._path(piece.path), exist_ok=True)
        elif isinstance(piece, Link):
            self._path(piece.path)
            self._links.append(piece)
        elif isinstance(piece, Drop):
            os.unlink(self._last)
        else:
            self._finish(piece.digest)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.seek(self._written)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._written += len(data)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            os.utime(self._last, (self._modified_s, self._modified_s))

    def _finish(self, digest: str) -> None:
        if digest != self._digest.hexdigest():
            raise NotTaken("what arrived is not what was sent")
        for name, target in self._links:  # Not before: nothing is written through a link.
            if _stays(name, target):
                with suppress(FileExistsError):
                    os.symlink(target, self._path(name))
        old = _beside(self._target, "old")
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(self._target, old)
        os.rename(self._aside, self._target)
        shutil.rmtree(old, ignore_errors=True)
        self._whole = True

    def _path(self, name: str) -> str:
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise NotTaken(f"{name!r} is no path in a folder")
        return os.path.join(self._aside, name)


class Parcels:
    """Those on their way to one place; `place` says which folder each becomes."""

    def __init__(self, place: Callable[[Label], str]) -> None:
        self._place = place
        self._coming: dict[Label, Arrival] = {}

    def take(self, message: Parcel) -> bool:
        """The next block of a parcel; whether that parcel is whole now, and in its place.

        `OSError`: it may be given again, when there is room. `NotTaken`: the rest of that parcel will be dropped.
        """
        label, number, block = message
        try:
            if number == 0:
                self._coming[label] = Arrival(self._place(label))
            if label not in self._coming:
                return False
            whole = self._coming[label].take(number, block)
        except (NotTaken, ValueError) as error:
            self._drop(label)
            raise NotTaken(str(error)) from None
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            self._drop(label)
            name = os.path.basename(os.fsdecode(error.filename)) if error.filename else "a file"
            raise NotTaken(f"{name!r} cannot be stored: {error.strerror}") from None
        if whole:
            del self._coming[label]
        return whole

    def _drop(self, label: Label) -> None:
        if label in self._coming:
            self._coming.pop(label).discard()

    def discard(self) -> None:
        """Nobody will send the rest: leave nothing of what is not whole."""
        for label in list(self._coming):
            self._drop(label)


def recover(target: str) -> None:
    """Mend what a crash between two renames left: the new folder where it was whole, else the old one."""
    old = _beside(target, "old")
    if os.path.isdir(old) and not os.path.lexists(target):
        aside = _beside(target, "coming")
        os.rename(aside if os.path.isdir(aside) else old, target)
        shutil.rmtree(old, ignore_errors=True)


def _beside(target: str, role: str) -> str:
    """Another name beside it, always the same, that `files.disk.is_aside` knows as one of something unfinished."""
    folder, name = os.path.split(target)
    known = hashlib.blake2b(os.fsencode(f"{role} {name}"), digest_size=4).hexdigest()
    return os.path.join(folder, f".{name[:50]}.{known}.part")
