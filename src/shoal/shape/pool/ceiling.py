"""How many workers of a lane each node may have, and where the next one is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from shoal.engine.base import Engine
from shoal.model import Need


class Ceiling:
    """`most` is how many workers each node may have, by host; None: as many as it has room for."""

    def __init__(self, engine: Engine, need: Need, most: Mapping[str, int] | None) -> None:
        self._engine = engine
        self._need = need
        self._most = most

    def capacity(self) -> int:
        """How many workers there may be on the nodes that are alive, were these empty."""
        if self._most is None:
            return self._engine.capacity(self._need)
        return sum(
            min(most, self._engine.capacity(self._need._replace(node=host)))
            for host, most in self._allowed().items()
        )

    def most_asks(self, wanted: int) -> int:
        """How many reservations may wait for so many workers."""
        return max(0, wanted)

    def next_needs(
        self, hosts: Iterable[str | None], pending: Iterable[str | None] = ()
    ) -> list[Need] | None:
        """What to ask for, for one more worker; None where every node has as many as it may have.

        `hosts` are those of all workers that there are, and of those that were asked for; `pending` only these.
        """
        if self._most is None:
            return [self._need]
        taken = Counter(hosts)
        below = {host: most - taken[host] for host, most in self._allowed().items()}
        host = max(below, key=below.__getitem__, default=None)
        return [self._need._replace(node=host)] if host is not None and below[host] > 0 else None

    def _allowed(self) -> dict[str, int]:
        most, node = self._most or {}, self._need.node
        hosts = [each.host for each in self._engine.nodes() if node in (None, each.host)]
        return {host: most[host] for host in hosts if host in most}
