"""Where a pool's waiting items come from: first what an earlier session left, then what the source makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.model import Item
from shoal.shape.pool.values import Source


class Supply:
    """`waits` is told of recorded items, `take` of new ones, which have to be recorded first."""

    def __init__(
        self,
        source: Source,
        resumed: Iterator[Item] | None,
        waits: Callable[[Item], None],
        take: Callable[[Sequence[Item]], None],
    ) -> None:
        self._source = source
        self._resumed = resumed
        self._waits = waits
        self._take = take

    def exhausted(self) -> bool:
        """Whether nothing more will ever come."""
        return self._resumed is None and self._source.finished()

    def refill(self, room: int, hungry: int, workers: int) -> None:
        """Get more: as many recorded items as there is room for, then as many new ones as workers will soon take."""
        if self._resumed is not None:
            self._take_resumed(self._resumed, room)
        elif hungry > 0:
            items = self._source.take(hungry, workers)
            if items:
                self._take(items)

    def _take_resumed(self, resumed: Iterator[Item], room: int) -> None:
        for count, item in enumerate(resumed, 1):
            self._waits(item)
            if count >= room:
                return
        self._resumed = None
