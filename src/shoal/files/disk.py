"""Whose a folder is, and folders of our own, also where everybody can make one. Not about secrets in files."""

from __future__ import annotations

import os
import stat

from shoal.errors import AccessDenied

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
