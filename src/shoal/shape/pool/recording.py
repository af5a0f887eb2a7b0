"""When what a pool tells its journal becomes durable, and who hears of it then."""

from __future__ import annotations

from shoal.errors import StoreError
from shoal.shape.journal import Journal
from shoal.shape.pool.values import Ended, Watcher

PATIENCE_S = 20.0
"""How long a store that cannot record (a full disk) is tried again before the run ends."""


class Recording:
    """Commits several things at a time; nobody hears of an end before it is durable."""

    def __init__(self, journal: Journal, commit_s: float, watcher: Watcher | None, now: float) -> None:
        self.journal = journal
        self._commit_s = commit_s
        self._watcher = watcher
        self._undurable: list[Ended] = []
        self._failing_since: float | None = None
        self._next = now
        self.dirty = False
        """Whether the journal was told something since the last commit."""

    @property
    def failing(self) -> bool:
        """Whether nothing can be recorded at present; then nothing more should be started."""
        return self._failing_since is not None

    def due(self) -> float | None:
        """When the next commit should be; None when there is nothing to commit."""
        return self._next if self.dirty else None

    def add(self, ended: Ended) -> None:
        """An item ended: watchers hear of it after the next commit."""
        self._undurable.append(ended)
        self.dirty = True

    def commit_if_due(self, now: float, *, at_once: bool = False) -> None:
        """Commit when it is time, or at once unless the last try failed. Raises when it fails for too long."""
        if self.dirty and (now >= self._next or (at_once and not self.failing)):
            self._commit(now)

    def _commit(self, now: float) -> None:
        self._next = now + self._commit_s
        try:
            self.journal.commit()
        except StoreError:
            if self._failing_since is None:
                self._failing_since = now
            elif now - self._failing_since > PATIENCE_S:
                raise
            return
        self._failing_since = None
        self.dirty = False
        durable, self._undurable = self._undurable, []
        if durable and self._watcher is not None:
            self._watcher.durable(durable)
