"""Files on disks: written whole or not at all, folders of our own, secrets, and paths that are on a network."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from shoal.errors import AccessDenied

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
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
_SHOWN = 50
"""How much of a name is in that of the file aside: a file name has at most 255 bytes, and characters up to four."""


_ASIDE = re.compile(r"\..{0,50}\.[0-9a-f]{8}\.part", re.DOTALL)


def make_private(folder: str) -> str:
    """Make this folder, or see that it is ours; then nobody else can write to it. `AccessDenied` if it is another's."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    ensure_ours(folder)
    if os.stat(folder).st_mode & _OTHERS_WRITE:  # Only we can have opened it, so it is ours to close.
        os.chmod(folder, 0o700)
    return folder


def own_folder(base: str) -> str:
    """This user's folder in a place where everybody can make one; not made here.

    Where another user has taken its name, it is in the cache of this one, so that nobody can be locked out.
    """
    path = os.path.join(base, f"shoal-{os.getuid()}")
    try:
        is_taken = os.lstat(path).st_uid != os.getuid()
    except OSError:
        is_taken = False
    if not is_taken:
        return path
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "shoal", "here")


def make_closed(folder: str) -> None:
    """Make a folder that nobody else can look into; below one with the setgid bit its group may do what it may there.

    Raises `FileExistsError` like `os.mkdir`.
    """
    above = os.stat(os.path.dirname(os.path.abspath(folder))).st_mode
    os.mkdir(folder, 0o700 | (above & stat.S_IRWXG if above & stat.S_ISGID else 0))


def why_not_ours(path: str) -> str | None:
    """Why others may decide what is in this file or folder, or in the link in its place. None where only we do."""
    found = os.stat(path)
    for owner in (os.lstat(path).st_uid, found.st_uid):
        if owner != os.getuid():
            return f"belongs to {_user(owner)}"
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    if (by_group or found.st_mode & stat.S_IWOTH) and _keeps_modes(path):
        return "can be written by other users (`chmod go-w` closes it)"
    return None


def _keeps_modes(path: str) -> bool:
    """Whether the file system knows who may write: on some, of Windows or cameras, everything shows as open to all."""
    import tempfile

    try:
        probe = tempfile.mkdtemp(dir=path if os.path.isdir(path) else os.path.dirname(path))
    except OSError:
        return True
    try:
        return not os.stat(probe).st_mode & _OTHERS_WRITE
    finally:
        os.rmdir(probe)


def _user(number: int) -> str:
    from pwd import getpwuid

    try:
        return f"the user {getpwuid(number).pw_name}"
    except KeyError:
        return f"another user (number {number})"


def _is_own_group(number: int) -> bool:
    """Whether nobody but us is in this group: many systems give each user one, and let it write to new files."""
    from grp import getgrgid
    from pwd import getpwuid

    try:
        us, group = getpwuid(os.getuid()), getgrgid(number)
    except KeyError:
        return False
    return us.pw_gid == number and group.gr_name == us.pw_name and set(group.gr_mem) <= {us.pw_name}


def ensure_ours(folder: str, *, or_root: bool = False) -> None:
    """Raises `AccessDenied` if this folder, or the link that stands in its place, belongs to another user."""
    allowed = (os.getuid(), 0) if or_root else (os.getuid(),)
    for found in (os.lstat(folder), os.stat(folder)):
        if found.st_uid not in allowed:
            raise AccessDenied(
                f"{folder} belongs to another user (number {found.st_uid}).",
                hint="Set TMPDIR to a folder of your own, or have that one removed.",
            )


def write_secret(path: str, text: str) -> None:
    """Write a whole file that nobody else can read, whatever was there before. A link is not followed."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)


def user_key(environ: Mapping[str, str]) -> bytes:
    """A key of this user's on this machine, made with the first call. It never travels."""

    from shoal.files.local import LocalStorage

    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    storage = LocalStorage(make_private(os.path.join(state, "shoal", "key")))
    if not storage.exists("key"):
        storage.write_new("key", os.urandom(32))
    return storage.read("key")


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
