"""Folders on a node that several workers share: who uses one says so, and the last one out removes it.

A lock beside the folder is held as long as its user lives, however that ends. Knows nothing of what is in them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from typing import IO

from shoal.errors import EngineError

_LOCK = ".lock"
PATIENCE_S = 300.0
"""How long others may take to fill or to remove a folder that is waited for."""
LOOK_S = 0.02


def hold(folder: str, *, alone: bool = False, patience_s: float = PATIENCE_S) -> IO[str]:
    """Use this folder, which need not be there yet, until the file that is returned is closed. Waits for removals.

    Several may hold one at once; with `alone`, this waits until nobody else does. `EngineError` where that takes too
    long.
    """
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    held = _locked(f"{folder}{_LOCK}", fcntl.LOCK_EX if alone else fcntl.LOCK_SH, patience_s)
    if held is None:
        raise EngineError(
            f"{folder} has been locked by another process for {patience_s:g} s.",
            hint=f"See which one hangs (fuser {folder}{_LOCK}) and end it.",
        )
    return held


def remove_unused(folder: str) -> bool:
    """Remove the folder unless somebody holds it; whether it is gone."""
    path = f"{folder}{_LOCK}"
    lock = _locked(path, fcntl.LOCK_EX, 0.0)
    if lock is None:
        return False
    with lock:
        shutil.rmtree(folder, ignore_errors=True)
        os.unlink(path)
    return True


def remove_old(parent: str, unused_s: float) -> None:
    """Remove the folders in there that are not locked and were not used for `unused_s`."""
    with suppress(FileNotFoundError), os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for path in found:
            with suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > unused_s:
                    remove_unused(path)


def _locked(path: str, how: int, patience_s: float) -> IO[str] | None:
    """The file, locked; None if others do not let go of it for so long."""
    until = time.monotonic() + patience_s
    while True:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - the caller closes it
        while not _lock(file, how):
            if time.monotonic() >= until:
                file.close()
                return None
            time.sleep(LOOK_S)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()  # It was removed while we waited, and locks nothing.


def _lock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
