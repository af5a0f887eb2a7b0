"""More nodes while a run needs them: looks at what is left, and asks for nodes that are worth it; hosts by name where
Shoal starts them, places where Ray's own autoscaler adds the nodes.

Nodes that stand idle are ended by the cluster itself, as this driver may not be the only one, or the last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple, TypeAlias

from shoal.cluster.base import Tell
from shoal.cluster.hosted import START_S, HostedProvider
from shoal.engine import room
from shoal.errors import ShoalError
from shoal.model import Asks, Item, Need, Node
from shoal.model.record import CLUSTER, NODE, RunEvent
from shoal.planner.node_growth import Growth, Spare, grow
from shoal.planner.scalability import Throughput
from shoal.shape.base import Ended, Progress
from shoal.units import format_seconds

LOOK_S = 0.5


COME_S = 300.0
"""A node that was started and has no place for work by then is not waited for: it was lost, or let go again."""


WAIT_S = 3.0
"""A run that has had no worker for so long is a reason to start a node, whatever is known of its work."""


REPEAT_S = 5.0
"""How often a wish that stands is said again: who passes it on may have been replaced."""


RISE = 0.25
"""Ray's autoscaler is not asked for more than before where that is below this share of it: estimates go up and down."""


MOST_NODES = 100
"""Nodes that Ray's autoscaler is asked for at once, at most."""


Wish: TypeAlias = Callable[[Sequence[Need]], bool]
"""Tells an engine which places a run would use beside those it holds. False where nobody could add nodes."""


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
    """Watches a shape. Work never waits for it: nodes get work when they have come. `_look` is for subclasses."""

    def __init__(self, asks: Asks, alive: Callable[[], Sequence[Node]], tell: Tell) -> None:
        self._asks = asks
        self._alive = alive
        self._tell = tell
        self._next_look = 0.0
        self._waiting = Waiting()
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
        self._look(progress, _left_s(progress), self._waiting.look(progress))

    def _look(self, progress: Progress, left_s: float | None, waits: bool) -> None:
        """Ask for what is worth it. `left_s` is how long the rest takes, `waits` whether there is no room at all."""
        raise NotImplementedError

    def _growths(
        self, progress: Progress, left_s: float | None, coming: int, spares: Sequence[Spare], most: int
    ) -> list[Growth]:
        """Those of the nodes that pay, where so many workers more will have room on nodes that are on their way."""
        workers = max(1, progress.workers)
        if left_s is None or (progress.useful is not None and progress.useful <= workers + coming):
            return []
        left_s = left_s * workers / (workers + coming)
        return grow(left_s, workers + coming, spares, most, self._throughput.law())

    def _note(self, at: float, subject: str, change: str, why: str) -> None:
        self._changes.append(RunEvent(at, subject, change, why))
        self._tell(f"scale: {subject.removeprefix(NODE)} {change}: {why}")

    def changes(self) -> Iterator[RunEvent]:
        """What has changed since this was last asked: nodes that were requested, that are ready or that failed."""
        while self._changes:
            yield self._changes.popleft()


class HostGrowth(Growing):
    """Has hosts of the cluster file started, in threads."""

    def __init__(
        self, provider: HostedProvider, asks: Asks, alive: Callable[[], Sequence[Node]], tell: Tell
    ) -> None:
        super().__init__(asks, alive, tell)
        assert provider.cluster.scale is not None
        self._provider = provider
        self._scale = provider.cluster.scale
        self._coming = Coming()
        self._failed: set[str] = set()

    def _look(self, progress: Progress, left_s: float | None, waits: bool) -> None:
        if left_s is None and not waits:
            return
        there = {node.host for node in self._alive()}
        expected = self._coming.look(there, progress.now)
        most = self._scale.max - len(there | expected)
        coming = sum(self._slots(node) for node in self._nodes() if node.host in expected)
        taken = there | expected | self._failed
        free = [node for node in self._nodes() if node.host not in taken]
        spares = spares_of(free, self._asks, self._provider.start_s())
        growths = self._growths(progress, left_s, coming, spares, most)
        if waits and not growths and not expected:
            growths = for_a_place(spares, most)
        for growth in growths:
            self._coming.ask(growth.host)
            self._note(progress.now, NODE + growth.host, "requested", growth.why)
            threading.Thread(target=self._start, args=(growth.host, progress.now), daemon=True).start()

    def _start(self, host: str, requested_s: float) -> None:
        try:
            failed = self._provider.up(self._tell, [host])
        except ShoalError as error:
            failed = {host: str(error)}
        if host in failed:
            self._failed.add(host)
            self._coming.drop(host)
            self._note(requested_s, NODE + host, "failed", failed[host])
        else:
            self._coming.started(host)
            times = self._provider.book.read().get("hosts", {}).get(host, {})
            ready_s = times.get("ready_s") or requested_s
            self._note(ready_s, NODE + host, "ready", _after(ready_s - requested_s))

    def _nodes(self) -> Sequence[Node]:
        return self._provider.known_nodes()

    def _slots(self, node: Node) -> int:
        return room.slots(self._asks, node)


class Asked(NamedTuple):
    """Places that were asked for at one time, less those that came."""

    at: float
    places: int
    why: str


class RayGrowth(Growing):
    """Asks Ray's own autoscaler for places: which nodes it adds for them, it decides.

    A node that comes is counted for what was asked first.
    """

    def __init__(self, wish: Wish, asks: Asks, alive: Callable[[], Sequence[Node]], tell: Tell) -> None:
        super().__init__(asks, alive, tell)
        self._wish = wish
        self._asked: deque[Asked] = deque()
        self._hosts = {node.host for node in alive()}
        self._starts_s: list[float] = []
        """How long each node took that came."""
        self._told = 0
        self._next_wish = 0.0

    def _look(self, progress: Progress, left_s: float | None, waits: bool) -> None:
        nodes = self._alive()
        self._see_who_came(nodes, progress.now)
        self._withdraw(progress, left_s)
        coming = self._coming()
        growth = self._growth(progress, left_s, waits, coming, nodes)
        wanted = coming + (0 if growth is None else growth.places)
        if wanted == self._told and (not wanted or progress.now < self._next_wish):
            return
        self._next_wish = progress.now + REPEAT_S
        if self._wish([need for group in range(wanted) for need in self._asks[group % len(self._asks)]]):
            self._told = wanted
            if growth is not None:
                self._asked.append(growth)
                what = f"room for {growth.places} more worker{'' if growth.places == 1 else 's'}"
                self._note(growth.at, CLUSTER, "requested", f"{what}: {growth.why}")

    def _growth(
        self, progress: Progress, left_s: float | None, waits: bool, coming: int, nodes: Sequence[Node]
    ) -> Asked | None:
        """What to ask for now. The nodes that may come are taken to be as large as the largest that is there."""
        slots = max(1, max((room.slots(self._asks, node) for node in nodes), default=1))
        spare = Spare("another node", slots, self._start_s())
        growths = self._growths(progress, left_s, coming, [spare] * MOST_NODES, MOST_NODES)
        if growths:
            places = len(growths) * slots
            if progress.useful is not None:
                places = max(1, min(places, progress.useful - progress.workers - coming))
            if places >= RISE * (progress.workers + coming):
                return Asked(progress.now, places, growths[0].why)
        if waits and not coming:
            return Asked(progress.now, 1, for_a_place([spare], 1)[0].why)
        return None

    def _see_who_came(self, nodes: Sequence[Node], now: float) -> None:
        for node in nodes:
            slots = room.slots(self._asks, node)
            if node.host in self._hosts or not slots or not self._asked:
                continue
            at, _, why = self._asked[0]
            self._starts_s.append(now - at)
            self._note(at, NODE + node.host, "requested", why)
            self._note(now, NODE + node.host, "ready", _after(now - at))
            while slots and self._asked:
                first = self._asked.popleft()
                if first.places > slots:
                    self._asked.appendleft(first._replace(places=first.places - slots))
                slots = max(0, slots - first.places)
        self._hosts = {node.host for node in nodes}

    def _withdraw(self, progress: Progress, left_s: float | None) -> None:
        """Forget what was asked for last and is of no use any more: nothing would be left to do for it."""
        if not self._asked:
            return
        allowed = self._coming()
        if left_s is not None and progress.workers and left_s <= self._start_s():
            allowed = 0
        elif progress.useful is not None:
            allowed = min(allowed, max(0, progress.useful - progress.workers))
        while (excess := self._coming() - allowed) > 0:
            last = self._asked.pop()
            if last.places > excess:
                self._asked.append(last._replace(places=last.places - excess))
        if not self._asked:
            self._note(progress.now, CLUSTER, "withdrawn", "what is left is done before a node could come")

    def _coming(self) -> int:
        return sum(asked.places for asked in self._asked)

    def _start_s(self) -> float:
        return sum(self._starts_s) / len(self._starts_s) if self._starts_s else START_S


def _after(seconds: float) -> str:
    return f"{seconds:.1f} s after it was requested"


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
