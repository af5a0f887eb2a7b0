"""More nodes while a run needs them: looks at what is left, and asks the provider for nodes that are worth it.

Nodes that stand idle are ended by the cluster itself, as this driver may not be the only one, or the last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set

from shoal.cluster.base import Tell
from shoal.cluster.hosted import HostedProvider
from shoal.engine import room
from shoal.errors import ShoalError
from shoal.model import Asks, Item, Node
from shoal.model.record import NODE, RunEvent
from shoal.planner.node_growth import Growth, Spare, grow
from shoal.planner.scalability import Throughput
from shoal.shape.base import Ended, Progress
from shoal.units import format_seconds

LOOK_S = 0.5


COME_S = 300.0
"""A node that was started and has no place for work by then is not waited for: it was lost, or let go again."""


WAIT_S = 3.0
"""A run that has had no worker for so long is a reason to start a node, whatever is known of its work."""


class Coming:
    """The hosts that were asked for and are not there yet. Threads that start them tell when they have."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._started: set[str] = set()
        self._since: dict[str, float] = {}
        """Since when it has been seen that a host was started."""

    def ask(self, host: str) -> None:
        self._started.discard(host)
        self._since.pop(host, None)
        self._asked.add(host)

    def started(self, host: str) -> None:
        self._started.add(host)

    def drop(self, host: str) -> None:
        self._asked.discard(host)

    def look(self, there: Set[str], now: float) -> Set[str]:
        """Those that may still come."""
        for host in list(self._started):
            self._since.setdefault(host, now)
        late = {host for host, since in self._since.items() if now - since > COME_S}
        for host in self._asked & (there | late):
            self._asked.discard(host)
        return frozenset(self._asked)


class Waiting:
    """Since when a run has had no worker though it has work: it stands in line, or no node has room for it."""

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, progress: Progress) -> bool:
        """Whether that has been so for `WAIT_S`."""
        if progress.workers or not progress.waiting:
            self._since = None
        elif self._since is None:
            self._since = progress.now
        return self._since is not None and progress.now - self._since >= WAIT_S


class Growing:
    """Watches a pool. Work never waits for it: nodes are started in threads, and get work when they have come."""

    def __init__(
        self, provider: HostedProvider, asks: Asks, alive: Callable[[], Sequence[Node]], tell: Tell
    ) -> None:
        assert provider.cluster.scale is not None
        self._provider = provider
        self._scale = provider.cluster.scale
        self._asks = asks
        self._alive = alive
        self._tell = tell
        self._next_look = 0.0
        self._coming = Coming()
        self._waiting = Waiting()
        self._failed: set[str] = set()
        self._weight: Callable[[Item], float] | None = None
        self._throughput = Throughput()
        self._done = 0.0
        """What ended since the last look."""
        self._changes: deque[RunEvent] = deque()
        """Those that nobody has asked for yet. Threads add to it."""

    def measure(self, weight: Callable[[Item], float]) -> None:
        """The work of an item is known: what workers do together is measured, and nodes that add nothing stay off."""
        self._weight = weight
        self._throughput = Throughput()

    def durable(self, ended: Sequence[Ended]) -> None:
        if self._weight is not None:
            self._done += sum(self._weight(entry.item) for entry in ended if entry.outcome.state == "done")

    def moment(self, progress: Progress) -> None:
        if progress.now < self._next_look:
            return
        self._next_look = progress.now + LOOK_S
        self._throughput.tell(progress.now, progress.working, self._done)
        self._done = 0.0
        left_s = _left_s(progress)
        waits = self._waiting.look(progress)
        if left_s is None and not waits:
            return
        there = {node.host for node in self._alive()}
        expected = self._coming.look(there, progress.now)
        most = self._scale.max - len(there | expected)
        coming = sum(self._slots(node) for node in self._nodes() if node.host in expected)
        workers = max(1, progress.workers)
        taken = there | expected | self._failed
        free = [node for node in self._nodes() if node.host not in taken]
        spares = spares_of(free, self._asks, self._provider.start_s())
        growths = []
        if left_s is not None:
            left_s = left_s * workers / (workers + coming)
            growths = grow(left_s, workers + coming, spares, most, self._throughput.law())
        if waits and not growths and not expected:
            growths = for_a_place(spares, most)
        for growth in growths:
            self._coming.ask(growth.host)
            self._note(progress.now, growth.host, "requested", growth.why)
            threading.Thread(target=self._start, args=(growth.host, progress.now), daemon=True).start()

    def _start(self, host: str, requested_s: float) -> None:
        try:
            failed = self._provider.up(self._tell, [host])
        except ShoalError as error:
            failed = {host: str(error)}
        if host in failed:
            self._failed.add(host)
            self._coming.drop(host)
            self._note(requested_s, host, "failed", failed[host])
        else:
            self._coming.started(host)
            times = self._provider.book.read().get("hosts", {}).get(host, {})
            ready_s = times.get("ready_s") or requested_s
            self._note(ready_s, host, "ready", f"{ready_s - requested_s:.1f} s after it was requested")

    def _note(self, at: float, host: str, change: str, why: str) -> None:
        self._changes.append(RunEvent(at, NODE + host, change, why))
        self._tell(f"scale: {host} {change}: {why}")

    def changes(self) -> Iterator[RunEvent]:
        """What has changed since this was last asked: nodes that were requested, that are ready or that failed."""
        while self._changes:
            yield self._changes.popleft()

    def _nodes(self) -> Sequence[Node]:
        return self._provider.known_nodes()

    def _slots(self, node: Node) -> int:
        return room.slots(self._asks, node)


def for_a_place(spares: Sequence[Spare], most: int) -> list[Growth]:
    """The node to start for a run that has no worker, if there may be one more."""
    why = f"nothing has had room for a worker of this run for {format_seconds(WAIT_S)}"
    return [Growth(spare.host, why, 0.0) for spare in spares[: max(0, min(1, most))]]


def spares_of(nodes: Sequence[Node], asks: Asks, start_s: float) -> list[Spare]:
    """Those of the nodes that have room for workers."""
    slots = [(node.host, room.slots(asks, node)) for node in nodes]
    return [Spare(host, count, start_s) for host, count in slots if count]


def _left_s(progress: Progress) -> float | None:
    """How long the rest takes with the workers there are; from what runs, as long as nothing has ended."""
    if progress.remaining_s is not None:
        return progress.remaining_s
    if progress.least_s is not None:
        return progress.least_s
    if not progress.running:
        return None
    longest = max(progress.now - running.since for running in progress.running)
    return longest * progress.waiting / max(1, progress.workers)
