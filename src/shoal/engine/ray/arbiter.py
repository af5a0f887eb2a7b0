"""Who holds what on a Ray cluster: one named actor that all drivers ask, and each driver's end of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from shoal.engine import arbitration
from shoal.engine.claims import PROTOCOL, Ask, Claim, Hold, Table, other_protocol
from shoal.engine.ray import autoscaler
from shoal.engine.ray import nodes as ray_nodes
from shoal.engine.ray.groups import Groups
from shoal.engine.ray.link import Link
from shoal.engine.ray.nodes import Free
from shoal.engine.reservations import Settled
from shoal.engine.room import Rooms
from shoal.model import Need, Node, Place

ANY_NAME = "shoal-arbiter"
NAME = f"{ANY_NAME}-{PROTOCOL}"
NAMESPACE = "shoal"
SILENT_S = 15.0
"""Seconds of silence after which a driver counts as gone, and its leases are free."""
ASK_S = 1.0
"""How often a driver that waits for nothing asks whether others are owed something."""
WISH_S = 2.0
"""How often, while somebody wishes for nodes, it is looked whether that driver is still there; and how often a driver
looks whether there is somebody who could add nodes, as long as there is nobody."""
OTHERS_S = 5.0
"""How long an arbiter of another protocol may take to say whether it is in use."""
SETTLE_S = 0.3
"""How long Ray may take to show what was given back."""
RETRY_S = 1.0
RETRY_MOST_S = 10.0
"""After Ray had no room where it had shown some: the first wait before it is asked again, and the longest."""
LASTING_S = 1.0
"""Use that lasts this long is another program's; before, it may be our own that came or went just now."""


class Arbiter:
    """The actor. Each call names its driver, and counts as a sign of life.

    `free` is what Ray has left on each host, as the driver that calls sees it.
    """

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._heard: dict[str, float] = {}
        self._lasting = Lasting()
        self._nodes: Sequence[Node] = ()
        """As a driver saw them last."""
        self._preparing: dict[str, float] = {}
        """Hosts that get ready for work, and when that was last said."""
        self._others: Sequence[Need] = ()
        """What programs other than Shoal use of each node, as a driver saw it last."""
        self._wishes: dict[str, Sequence[Need]] = {}
        self._requests = autoscaler.Requests()
        self._alarm: threading.Timer | None = None

    def settle(
        self,
        me: str,
        nodes: Sequence[Node],
        free: Mapping[str, Free],
        asks: Sequence[Ask],
        now: float,
        first: int,
    ) -> tuple[dict[int, tuple[Hold, ...]], list[int]]:
        """What the driver holds from now on for each of its asks that is granted, in places numbered from `first` on;
        and the numbers of those that it is to give back. `now` is the driver's time, as in its asks."""
        here = time.monotonic()
        before = self._hear(me, here)
        self._nodes = nodes
        ours = [ask._replace(since=self._since(before, ask, here - now)) for ask in asks]
        mine = self._claims[me] = Claim(before.weight, before.holds.values(), ours)
        held = [hold.place for claim in self._claims.values() for hold in claim.holds.values()]
        seen = left_for_us(nodes, held, free)
        # Without the patience that the embedded engine has: Ray starts nothing where there is no room.
        ours_and_free = self._lasting.left(nodes, seen, here)
        self._others = autoscaler.used_by_others(nodes, ours_and_free)
        table = Table(ours_and_free, self._claims, left=Rooms(seen, held))
        granted = arbitration.grants(table, [(me, ask) for ask in ours], count(first), here)
        found = {ask.id: tuple(mine.holds[place.id] for place in places) for _, ask, places in granted}
        arbitration.recalls(table)
        return found, list(mine.leaving)

    def _since(self, before: Claim, ask: Ask, ahead_s: float) -> float:
        """On the clock here, and the same each time: the order in line does not change."""
        known = before.asks.get(ask.id) or before.line.get(ask.id)
        return ask.since + ahead_s if known is None else known.since

    def hold(self, me: str, holds: Sequence[Hold], weight: float) -> None:
        """What the driver holds now, all of it."""
        before = self._hear(me, time.monotonic())
        self._claims[me] = Claim(weight, holds, [*before.asks.values(), *before.line.values()])

    def expect(self, me: str, hold: Hold, seconds: float) -> Hold:
        """A hold as it is known from now on: the driver will give it back in so many seconds."""
        here = time.monotonic()
        known = hold._replace(until=here + seconds)
        self._hear(me, here).hold(known)
        return known

    def prepares(self, hosts: Sequence[str]) -> None:
        """Some driver has these nodes install packages: they are not idle. To be said again before `SILENT_S`."""
        self._preparing.update(dict.fromkeys(hosts, time.monotonic()))

    def wish(self, me: str, needs: Sequence[Need]) -> None:
        """The places that the driver would use beside those it holds, on nodes that Ray's autoscaler could add."""
        self._hear(me, time.monotonic())
        self._wishes[me] = needs
        self.request()

    def request(self) -> None:
        """Ask the autoscaler for what all drivers wish for now. Is called again as long as somebody does."""
        self._forget_the_silent()
        wished = [need for needs in self._wishes.values() for need in needs]
        if self._alarm is None and (wished or self._requests.stands):
            myself = ray.get_runtime_context().current_actor
            self._alarm = threading.Timer(WISH_S, myself.look_again.remote)
            self._alarm.daemon = True
            self._alarm.start()
        held = autoscaler.held_by(self._claims.values())
        self._requests.make([*held, *self._others], wished)

    def look_again(self) -> None:
        self._alarm = None
        self.request()

    def busy(self) -> list[str]:
        """The nodes that some driver holds a place on, prepares, or waits for a place on."""
        self._forget_the_silent()
        claims = self._claims.values()
        held = {hold.place.host for claim in claims for hold in claim.holds.values()}
        needs = [
            need
            for claim in claims
            for ask in (*claim.line.values(), *claim.asks.values())
            for need in ask.needs
        ]
        wanted = {node.host for node in self._nodes if any(need.refusal(node) is None for need in needs)}
        return sorted(held | wanted | self._preparing.keys())

    def leave(self, me: str) -> None:
        if self._drop(me):
            self.request()

    def _drop(self, me: str) -> bool:
        """Whether it had wishes."""
        self._claims.pop(me, None)
        self._heard.pop(me, None)
        return bool(self._wishes.pop(me, ()))

    def _hear(self, me: str, now: float) -> Claim:
        self._heard[me] = now
        self._forget_the_silent()
        return self._claims.setdefault(me, Claim())

    def _forget_the_silent(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._heard.items() if now - at > SILENT_S]:
            self._drop(name)
        for host in [host for host, at in self._preparing.items() if now - at > SILENT_S]:
            del self._preparing[host]


class RayLeases:
    """Keeps `reservations.Leases` through the arbiter, which is fair between Shoal's drivers, and through placement
    groups, which are how Ray knows.
    """

    def __init__(self, link: Link, groups: Groups, name: str, weight: float = 1.0) -> None:
        self._link = link
        self._groups = groups
        self._name = name
        self._weight = weight
        self._held: dict[int, Hold] = {}
        """With the devices that the table counts. Which ones a worker gets, Ray decides when it starts."""
        self._last = 0
        self._asked_at = 0.0
        self._gave_at = -SETTLE_S
        self._not_before = 0.0
        self._wait_s = RETRY_S
        self._is_scaled = False
        """Whether the cluster is known to have an autoscaler."""
        self._look_at = 0.0
        self._arbiter = link.call(find_or_make)

    def changed(self) -> bool:
        return time.monotonic() - self._asked_at > ASK_S

    def settle(self, asks: Sequence[Ask], used: Collection[int], now: float) -> Settled:
        if time.monotonic() < self._not_before:
            asks = ()
        self._use(used)
        granted, recalled = self._decide(asks, now)
        new = [ask.id for ask in asks[-1:] if ask.since == now]
        while not granted.keys() >= set(new) and time.monotonic() < self._gave_at + SETTLE_S:
            # Ray does not show yet that this driver gave something back.
            time.sleep(SETTLE_S / 30)
            more, recalled = self._decide([ask for ask in asks if ask.id not in granted], now)
            granted.update(more)
        for number in recalled:
            self._held[number] = self._held[number]._replace(leaving=True)
        made = {ask: places for ask, places in granted.items() if self._make_group(places)}
        return Settled(made, recalled)

    def give(self, place: Place) -> None:
        if self._held.pop(place.id, None) is not None:
            self._gave_at = time.monotonic()
            self._groups.give(place)
            self._tell()

    def expect(self, place: Place, seconds: float, now: float) -> None:
        if place.id in self._held:
            self._held[place.id] = self._ask("expect", self._held[place.id], seconds)

    def close(self) -> None:
        self._held.clear()
        self._groups.clear()
        if not self._link.lost:
            self._link.tell(self._get, "leave", [])

    def wish(self, needs: Sequence[Need]) -> bool:
        now = time.monotonic()
        if not self._is_scaled and now >= self._look_at:
            self._look_at = now + WISH_S
            self._is_scaled = self._link.call(autoscaler.is_there)
        if self._is_scaled:
            self._link.tell(self._get, "wish", [list(needs)])
        return self._is_scaled

    def _use(self, used: Collection[int]) -> None:
        """Tell which places have workers, where that has changed."""
        other = [number for number, hold in self._held.items() if hold.used != (number in used)]
        for number in other:
            self._held[number] = self._held[number]._replace(used=number in used)
        if other:
            self._tell()

    def _decide(self, asks: Sequence[Ask], now: float) -> tuple[dict[int, tuple[Place, ...]], list[int]]:
        """The places come without devices, because Ray will choose them."""
        granted, recalled = self._ask("settle", *self._nodes(), list(asks), now, self._last + 1)
        for holds in granted.values():
            self._last += len(holds)
            self._held.update((hold.place.id, hold) for hold in holds)
        places = {
            ask: tuple(hold.place._replace(devices=()) for hold in holds) for ask, holds in granted.items()
        }
        return places, recalled

    def _make_group(self, places: Sequence[Place]) -> bool:
        """Where Ray has no room after all, another program was quicker: it is asked again later, and ever later."""
        known = self._link.nodes
        node_ids = [known[place.host][0] for place in places if place.host in known]
        if len(node_ids) == len(places) and self._groups.make(places, node_ids):
            self._wait_s = RETRY_S
            return True
        for place in places:
            del self._held[place.id]
        self._tell()
        self._not_before = time.monotonic() + self._wait_s
        self._wait_s = min(RETRY_MOST_S, 2 * self._wait_s)
        return False

    def _nodes(self) -> tuple[list[Node], dict[str, Free]]:
        known = self._link.nodes
        free = self._link.call(ray_nodes.free)
        return (
            [node for _, node in known.values()],
            {host: free[node_id] for host, (node_id, _) in known.items() if node_id in free},
        )

    def _tell(self) -> None:
        self._ask("hold", list(self._held.values()), self._weight)

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._asked_at = time.monotonic()
        return self._link.call(self._get, method, arguments)

    def _get(self, method: str, arguments: Sequence[Any]) -> Any:
        try:
            return ray.get(getattr(self._arbiter, method).remote(self._name, *arguments))
        except RayActorError:
            # A new one knows nothing: each driver tells it what it holds, as it comes by.
            self._arbiter = find_or_make()
            ray.get(self._arbiter.hold.remote(self._name, list(self._held.values()), self._weight))
            return ray.get(getattr(self._arbiter, method).remote(self._name, *arguments))


def find_or_make() -> Any:
    """On the head, which is there as long as the cluster is."""
    options = {"name": NAME, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
    return ray.remote(Arbiter).options(num_cpus=0, resources={ray_nodes.HEAD: 0.001}, **options).remote()


def ensure_understood() -> None:
    """Raise `CannotPlace` where drivers that keep another protocol hold something on this cluster."""
    for actor in ray.util.list_named_actors(all_namespaces=True):
        name = actor["name"]
        if actor["namespace"] != NAMESPACE or not name.startswith(ANY_NAME) or name == NAME:
            continue
        try:
            busy = ray.get(ray.get_actor(name, NAMESPACE).busy.remote(), timeout=OTHERS_S)
        except (RayError, ValueError):
            continue  # It is gone, or does not answer.
        if busy:
            raise other_protocol("this cluster", f"the actor {name} counts {', '.join(busy)} as busy")


def left_for_us(nodes: Sequence[Node], held: Iterable[Place], free: Mapping[str, Free]) -> list[Node]:
    """The nodes as large as what Shoal holds there and what Ray has free there, together."""
    held = list(held)
    return [_shrunk(node, [place for place in held if place.host == node.host], free) for node in nodes]


def _shrunk(node: Node, held: Sequence[Place], free: Mapping[str, Free]) -> Node:
    cpu, gpu, memory_bytes = free.get(node.host, Free(0.0, 0.0, 0))
    cpu += sum(place.need.cpu for place in held)
    memory_bytes += sum(place.need.memory_bytes for place in held)
    names = node.devices or tuple(str(index) for index in range(node.gpu))
    ours = {name for place in held for name in place.devices}
    others = [name for name in names if name not in ours][: int(gpu)]
    devices = tuple(name for name in names if name in ours or name in others)
    return node._replace(
        cpu=min(node.cpu, cpu),
        memory_bytes=min(node.memory_bytes, memory_bytes),
        gpu=len(devices),
        devices=devices,
    )


class Lasting:
    """The nodes less what other programs have used for a while: what shares are made of.

    Ray shows what changed a moment later than the table does; nobody should be asked to give back for that.
    """

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def left(self, nodes: Sequence[Node], seen: Sequence[Node], now: float) -> list[Node]:
        """`seen` is `left_for_us` of the same nodes now."""
        return [
            node._replace(cpu=node.cpu - self._used(node.host, node.cpu - now_left.cpu, now))
            for node, now_left in zip(nodes, seen, strict=True)
        ]

    def _used(self, host: str, used: float, now: float) -> float:
        """The least that others used there within the window; none while it was not watched that long."""
        samples = self._seen.setdefault(host, deque())
        samples.append((now, used))
        while len(samples) > 1 and samples[1][0] <= now - LASTING_S:
            samples.popleft()
        if samples[0][0] > now - LASTING_S:
            return 0.0
        return min(amount for _, amount in samples)
