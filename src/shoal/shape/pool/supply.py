"""Where a pool's waiting items come from: first what an earlier session left, then what the source makes."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.model import Item
from shoal.shape.pool.ready import ReadyQueue
from shoal.shape.pool.recording import Recording
from shoal.shape.pool.values import Source

PLENTY = 10_000
"""So many waiting items are enough to choose the longest from."""


class Supply:
    """Fills the queue of waiting items; what is new is told to the journal before it can be handed out."""

    def __init__(
        self, source: Source, resumed: Iterator[Item] | None, ready: ReadyQueue, recording: Recording
    ) -> None:
        self._source = source
        self._resumed = resumed
        self._ready = ready
        self._recording = recording

    def exhausted(self) -> bool:
        """Whether nothing more will ever come."""
        return self._resumed is None and self._source.finished()

    def refill(self, hungry: int, workers: int) -> None:
        """Get more, if there are fewer than plenty; new ones only as far as workers could take them now."""
        if len(self._ready) >= PLENTY:
            return
        if self._resumed is not None:
            self._take_resumed(self._resumed)
        elif hungry > 0 and not self._source.finished():
            self._take_new(hungry, workers)

    def _take_resumed(self, resumed: Iterator[Item]) -> None:
        for item in resumed:
            self._ready.push(item)
            if len(self._ready) >= PLENTY:
                return
        self._resumed = None

    def _take_new(self, hungry: int, workers: int) -> None:
        items = self._source.take(hungry, workers)
        if items:
            self._recording.journal.add(items)
            self._recording.dirty = True
            for item in items:
                self._ready.push(item)
