"""Keeps the copy of a run in the cluster's storage up to date while the run goes. A copy that fails stops nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from shoal import namespaces
from shoal.cluster.base import Tell
from shoal.errors import ShoalError
from shoal.files import Storage
from shoal.shape.base import Ended, Progress
from shoal.store.run_copies import RunCopy

EVERY_S = 5.0
"""How often a copy is begun."""
SHARE = 0.1
"""Of the time, that copying may take: large runs are copied less often."""


class Copying:
    """Watches a pool. `outside` is the network namespace that the storage is reached from, where it is another."""

    def __init__(
        self,
        folder: str,
        storage: Storage,
        turn: int,
        outside: str | None,
        tell: Tell,
        now: Callable[[], float],
    ) -> None:
        self._copy = RunCopy(folder, storage, turn)
        self._storage = storage
        self._outside = outside
        self._tell = tell
        self._now = now
        self._thread: threading.Thread | None = None
        self._next = 0.0
        self._took_s = 0.0
        self._left_out: set[str] = set()
        self.problem: str | None = None
        """Why the last copy could not be written."""

    def durable(self, ended: Sequence[Ended]) -> None:
        """Nothing: the next copy has them."""

    def moment(self, progress: Progress) -> None:
        if progress.now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = progress.now + max(EVERY_S, self._took_s / SHARE)
        self._begin()

    def finish(self) -> None:
        """The last copy, of everything."""
        if self._thread is not None:
            self._thread.join()
        self._begin().join()

    def _begin(self) -> threading.Thread:
        self._thread = threading.Thread(target=self._write, name="shoal-copy", daemon=True)
        self._thread.start()
        return self._thread

    def _write(self) -> None:
        began = self._now()
        try:
            with namespaces.inside(self._outside):
                self._tell_left_out(self._copy.write())
            self.problem = None
        except (ShoalError, OSError) as error:
            if self.problem is None:
                self._tell(f"The run cannot be copied to {self._storage.url}: {error} It goes on without.")
            self.problem = str(error)
        self._took_s = self._now() - began

    def _tell_left_out(self, left_out: Sequence[tuple[str, str]]) -> None:
        """Of each file once."""
        for key, why in left_out:
            if key not in self._left_out:
                self._left_out.add(key)
                self._tell(
                    f"{key} of the run cannot be copied to {self._storage.url}: {why} The rest is copied."
                )
