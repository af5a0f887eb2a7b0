"""Local files that are written whole or not at all. Other places, such as `s3://`, are in the modules beside it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

_SHOWN = 50
"""How much of a name is in that of the file aside: a file name has at most 255 bytes, and characters up to four."""


_ASIDE = re.compile(r"\..{0,50}\.[0-9a-f]{8}\.part", re.DOTALL)


def name_aside(name: str) -> str:
    """What a file is called until it is complete; another name each time."""
    return f".{name[:_SHOWN]}.{os.urandom(4).hex()}.part"


def is_aside(name: str) -> bool:
    """Whether a file of this name is one that `name_aside` named: not complete yet, or never."""
    return _ASIDE.fullmatch(name) is not None


def pause(seconds: float) -> None:
    """Wait for somebody else to let go of a file."""
    time.sleep(seconds)


@contextmanager
def replacing(path: str, mode: str = "w", *, durable: bool = True, **options: Any) -> Iterator[IO[Any]]:
    """A file to write aside; on a clean exit it is made durable and takes the place of `path` in one step.

    After an error, `path` is as it was and nothing is left beside it. `durable=False` saves a sync: then a
    power cut may leave the file empty, but nothing else does.
    """
    folder, name = os.path.split(path)
    aside = os.path.join(folder, name_aside(name))
    try:
        with open(aside, mode, **options) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    if durable:
        sync_folder(folder or ".")


def write_text(path: str, text: str, *, durable: bool = True) -> None:
    """Write a whole text file: afterwards it has the old content or the new, whatever happens in between."""
    with replacing(path, durable=durable, encoding="utf-8", newline="", errors="replace") as file:
        file.write(text)


def write_bytes(path: str, data: bytes) -> None:
    """Write a whole file: afterwards it has the old content or the new, whatever happens in between."""
    with replacing(path, "wb") as file:
        file.write(data)


def sync_file(path: str) -> None:
    """Make what was written to this file durable. Not for one that SQLite has open: its locks would go."""
    _sync(path, os.O_RDWR)


def sync_folder(path: str) -> None:
    """Make renames and new names in this folder durable, where the file system can."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
