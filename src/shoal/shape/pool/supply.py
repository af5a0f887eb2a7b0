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
    """Fills the queue of waiting items: with recorded ones directly, with new ones once they are recorded."""

    def __init__(
        self, source: Source, resumed: Iterator[Item] | None, ready: ReadyQueue, recording: Recording
    ) -> None:
        self._source = source
        self._resumed = resumed
        self._ready = ready
        self._recording = recording

    def exhausted(self) -> bool:
        """Whether nothing more will ever come."""
        return self._resumed is None and self._source.finished() and not self._recording.new

    def refill(self, hungry: int, workers: int) -> None:
        """Get more, if there are fewer than plenty; new ones only as far as workers will soon take them."""
        if len(self._ready) + self._recording.new >= PLENTY:
            return
        if self._resumed is not None:
            self._take_resumed(self._resumed)
        elif hungry > 0 and not self._source.finished():
            items = self._source.take(hungry, workers)
            if items:
                self._recording.add(items)

    def _take_resumed(self, resumed: Iterator[Item]) -> None:
        for item in resumed:
            self._ready.push(item)
            if len(self._ready) >= PLENTY:
                return
        self._resumed = None
