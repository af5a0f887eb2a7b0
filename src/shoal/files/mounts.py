"""Which paths are on a network file system, where SQLite's write-ahead log does not work. Reads the mounts, no more."""

from __future__ import annotations

import os
import re

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
_OCTAL = re.compile(r"\\([0-7]{3})")


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
