"""The folders an item owns while it runs, SHOAL_ITEM_DIR and SHOAL_CHECKPOINT_DIR; and what a machine keeps for all.

A million items must not mean a million folders, and making one is slow: an empty folder is renamed to the next item's.
"""

from __future__ import annotations

import os
from contextlib import suppress


def workload_folder() -> str:
    """Where a worker runs before it has begun an item: the workload's folder, or its copy on this machine."""
    return os.getcwd()


def cache_folder(name: str) -> str:
    """Where a machine keeps what can be made again: not made here."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "shoal", name)


class ItemFolder:
    """One kind of folder (`items`, `checkpoints`) under a run, for one worker, which holds one at a time."""

    __slots__ = ("_keeps", "_path", "_root")

    def __init__(self, root: str, *, keeps: bool) -> None:
        self._root = root
        self._keeps = keeps
        self._path: str | None = None
        os.makedirs(root, exist_ok=True)

    def enter(self, item: str) -> str:
        """The item's own folder: empty, unless it `keeps` what an earlier attempt left."""
        target = os.path.join(self._root, item)
        try:
            if self._path is None:
                os.mkdir(target)
            else:
                os.rename(self._path, target)
            self._path = target
        except OSError:
            self._enter_existing(target)
        return target

    def _enter_existing(self, target: str) -> None:
        """An earlier attempt left something there (or the spare folder vanished)."""
        self.close()
        if not self._keeps:
            import shutil

            shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target, exist_ok=True)
        self._path = target

    def leave(self) -> bool:
        """The item is over: whether it left anything behind. An empty folder serves the next item: `enter` that, or
        `park` it before anybody hears of this end."""
        if self._path is None:
            return False
        try:
            with os.scandir(self._path) as entries:
                kept = next(entries, None) is not None
        except OSError:
            self._path = None
            return False
        if kept:
            self._path = None
        return kept

    def park(self) -> None:
        """Nothing follows: the spare folder gives up its item's name, which a retry on another worker may need."""
        if self._path is not None:
            spare = os.path.join(self._root, f".spare-{os.getpid()}")
            try:
                os.rename(self._path, spare)
                self._path = spare
            except OSError:
                self.close()

    def close(self) -> None:
        """Remove the spare folder."""
        if self._path is not None:
            with suppress(OSError):
                os.rmdir(self._path)
            self._path = None
