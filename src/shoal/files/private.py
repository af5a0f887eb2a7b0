"""Folders that only this user can write to, also in places where everybody can make one. Not about secrets in files."""

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


def ensure_ours(folder: str, *, or_root: bool = False) -> None:
    """Raises `AccessDenied` if this folder, or the link that stands in its place, belongs to another user."""
    allowed = (os.getuid(), 0) if or_root else (os.getuid(),)
    for found in (os.lstat(folder), os.stat(folder)):
        if found.st_uid not in allowed:
            raise AccessDenied(
                f"{folder} belongs to another user (number {found.st_uid}).",
                hint="Set TMPDIR to a folder of your own, or have that one removed.",
            )
