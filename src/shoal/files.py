"""Files written whole or not at all, safe file names, and which paths are on a network file system.

Knows nothing of runs; bytes in other places (`s3://`, `hdfs://`) will join here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

MOUNTS = "/proc/self/mountinfo"

_NETWORK = frozenset(
    (
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "afs",
            "ncpfs",
            "9p",
            "ceph",
            "glusterfs",
            "lustre",
            "gpfs",
        ),
        *("beegfs", "ocfs2", "gfs2", "orangefs", "pvfs2", "panfs", "wekafs", "davfs", "coda", "virtiofs"),
        *("vboxsf", "vmhgfs", "prl_fs", "hgfs", "fuse"),
    )
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_OCTAL = re.compile(r"\\([0-7]{3})")


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
    aside = os.path.join(folder, f".{name}.{os.getpid()}.part")
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


def safe_name(text: str, limit: int = 100) -> str:
    """A readable file name that stays in its folder and is not hidden. Different texts may share one."""
    name = _UNSAFE.sub("-", text).strip("-").lstrip(".-")[:limit].rstrip("-. ")
    return name or "unnamed"


def on_network(path: str) -> bool:
    """Whether this path is, or would be, on a network file system. False where that is unknown."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read()
    except OSError:
        return False
    return is_network(file_system_of(os.path.realpath(path), mounts))


def is_network(kind: str | None) -> bool:
    """Whether a file system of this kind may be shared between machines. Any FUSE may be, so all count."""
    return kind is not None and (kind in _NETWORK or kind.startswith("fuse."))


def file_system_of(path: str, mounts: str) -> str | None:
    """The kind of the file system that holds an absolute path, from the text of a mountinfo file."""
    best, kind = -1, None
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if len(point) >= best and _is_inside(path, point):  # a later mount hides an earlier
            best, kind = len(point), kinds[0]
    return kind


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
