"""When what a shape tells its journal becomes durable, and what may go on then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.errors import StoreError, TakenOver
from shoal.model import Item
from shoal.shape.base import Ended, Watcher
from shoal.shape.journal import Journal

PATIENCE_S = 20.0
"""How long a store that cannot record (a full disk) is tried again before the run ends."""


class Recording:
    """Commits several things at a time. Before it is durable, no end is told and no new item is ready."""

    def __init__(
        self,
        journal: Journal,
        commit_s: float,
        recorded: Callable[[Item], None],
        watcher: Watcher | None,
        now: float,
    ) -> None:
        """`recorded` is called with each new item once it is durable."""
        self._journal = journal
        self._commit_s = commit_s
        self._recorded = recorded
        self._watcher = watcher
        self._new: list[Item] = []
        self._ended: list[Ended] = []
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

    @property
    def new(self) -> int:
        """How many new items wait for the next commit."""
        return len(self._new)

    def add(self, items: Sequence[Item]) -> None:
        """New items: ready after the next commit."""
        self._journal.add(items)
        self._new += items
        self.dirty = True

    def ended(self, ended: Ended) -> None:
        """An item ended: watchers hear of it after the next commit."""
        self._ended.append(ended)
        self.dirty = True

    def commit_if_due(self, now: float, *, at_once: bool = False) -> None:
        """Commit when it is time, or at once unless the last try failed.

        Raises when it fails for too long, and `TakenOver` at once: trying again would not help.
        """
        if self.dirty and (now >= self._next or (at_once and not self.failing)):
            self._commit(now)

    def _commit(self, now: float) -> None:
        self._next = now + self._commit_s
        try:
            self._journal.commit()
        except TakenOver:
            raise
        except StoreError:
            if self._failing_since is None:
                self._failing_since = now
            elif now - self._failing_since > PATIENCE_S:
                raise
            return
        self._failing_since = None
        self.dirty = False
        new, self._new = self._new, []
        for item in new:
            self._recorded(item)
        ended, self._ended = self._ended, []
        if ended and self._watcher is not None:
            self._watcher.durable(ended)
