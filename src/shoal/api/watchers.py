"""Several watchers as one."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.shape.base import Ended, Progress, Watcher


class Watchers:
    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def durable(self, ended: Sequence[Ended]) -> None:
        for watcher in self._watchers:
            watcher.durable(ended)

    def moment(self, progress: Progress) -> None:
        for watcher in self._watchers:
            watcher.moment(progress)
