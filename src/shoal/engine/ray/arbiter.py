"""Who holds what on a Ray cluster: one named actor that all drivers ask, and each driver's end of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from shoal.engine import leasing
from shoal.engine.leasing import Claim
from shoal.engine.ray import nodes as ray_nodes
from shoal.engine.ray.foreign import Lasting, left_for_us
from shoal.engine.ray.groups import Groups
from shoal.engine.ray.link import Link
from shoal.engine.ray.nodes import Free
from shoal.model import Need, Node, Place

NAME = "shoal-arbiter"
NAMESPACE = "shoal"
SILENT_S = 15.0
"""A driver that was not heard of for so long is gone, and holds nothing any more."""
ASK_S = 1.0
"""How often a driver that waits for nothing asks whether others are owed something."""
SAME_S = 0.08
"""What was refused is not asked again so soon, unless something was given back."""
SETTLE_S = 0.3
"""How long Ray may take to show what was given back."""
RETRY_S = 1.0
RETRY_MOST_S = 10.0
"""After Ray had no room where it had shown some: the first wait before it is asked again, and the longest."""


class Arbiter:
    """The actor. Each call names its driver, and counts as a sign of life.

    `free` is what Ray has left on each host, as the driver that calls sees it.
    """

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._heard: dict[str, float] = {}
        self._lasting = Lasting()
        self._preparing: dict[str, float] = {}
        """Hosts that get ready for work, and when that was last said."""

    def take(
        self,
        me: str,
        nodes: Sequence[Node],
        free: Mapping[str, Free],
        needs: Sequence[Need],
        want_more: float,
        first: int,
    ) -> tuple[Place, ...] | None:
        """Places, numbered from `first` on, which the driver holds from now on; or None."""
        mine = self._hear(me, want_more)
        left, _ = self._left(nodes, free)
        # Without the patience that other engines have: Ray starts nothing where there is no room.
        found = leasing.find(left, needs, mine, self._others(me), 0.0)
        if found is None:
            return None
        places = tuple(
            Place(first + index, host, need, devices)
            for index, (need, (host, devices)) in enumerate(zip(needs, found, strict=True))
        )
        asked = sum(need.cpu for need in needs)
        self._claims[me] = Claim((*mine.places, *places), want_more - asked)
        return places

    def hold(self, me: str, places: Sequence[Place], want_more: float) -> None:
        """What the driver holds now, all of it."""
        self._hear(me, want_more)
        self._claims[me] = Claim(tuple(places), want_more)

    def surplus(self, me: str, nodes: Sequence[Node], free: Mapping[str, Free], want_more: float) -> float:
        mine = self._hear(me, want_more)
        _, lasting = self._left(nodes, free)
        return leasing.surplus(lasting, mine, self._others(me))

    def prepares(self, hosts: Sequence[str]) -> None:
        """Some driver has these nodes install packages: they are not idle. To be said again before `SILENT_S`."""
        self._preparing.update(dict.fromkeys(hosts, time.monotonic()))

    def busy(self) -> list[str]:
        """The nodes that some driver holds a place on, or prepares."""
        self._forget_the_silent()
        held = {place.host for claim in self._claims.values() for place in claim.places}
        return sorted(held | self._preparing.keys())

    def leave(self, me: str) -> None:
        self._claims.pop(me, None)
        self._heard.pop(me, None)

    def _left(self, nodes: Sequence[Node], free: Mapping[str, Free]) -> tuple[list[Node], list[Node]]:
        """The nodes less what others than Shoal use at this moment, and less what they use lastingly."""
        held = [place for claim in self._claims.values() for place in claim.places]
        left = left_for_us(nodes, held, free)
        return left, self._lasting.left(nodes, left, time.monotonic())

    def _hear(self, me: str, want_more: float) -> Claim:
        self._heard[me] = time.monotonic()
        self._forget_the_silent()
        self._claims[me] = self._claims.get(me, Claim())._replace(want_more=want_more)
        return self._claims[me]

    def _forget_the_silent(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._heard.items() if now - at > SILENT_S]:
            self.leave(name)
        for host in [host for host, at in self._preparing.items() if now - at > SILENT_S]:
            del self._preparing[host]

    def _others(self, me: str) -> dict[str, Claim]:
        return {name: claim for name, claim in self._claims.items() if name != me}


class RayLeases:
    """Keeps `reservations.Leases` through the arbiter, which is fair between Shoal's drivers, and through placement
    groups, which are how Ray knows.
    """

    def __init__(self, link: Link, groups: Groups, name: str) -> None:
        self._link = link
        self._groups = groups
        self._name = name
        self._held: dict[int, Place] = {}
        """With the devices that the table counts. Which ones a worker gets, Ray decides when it starts."""
        self._last = 0
        self._asked_at = 0.0
        self._gave_at = -SETTLE_S
        self._refused: tuple[Sequence[Need], float] = ((), 0.0)
        self._not_before = 0.0
        self._wait_s = RETRY_S
        self._arbiter = link.call(find_or_make)

    def changed(self) -> bool:
        return time.monotonic() - self._asked_at > ASK_S

    def take(self, needs: Sequence[Need], want_more: float, waited_s: float) -> tuple[Place, ...] | None:
        now = time.monotonic()
        if now < self._not_before or self._refused_lately(needs, now):
            return None
        places = self._book(needs, want_more)
        while places is None and not waited_s and time.monotonic() < self._gave_at + SETTLE_S:
            # Ray does not show yet that this driver gave something back.
            time.sleep(SETTLE_S / 30)
            places = self._book(needs, want_more)
        if places is None:
            self._refused = (needs, time.monotonic())
            return None
        return places if self._make_group(places, want_more) else None

    def give(self, place: Place) -> None:
        if self._held.pop(place.id, None) is not None:
            self._gave_at = time.monotonic()
            self._refused = ((), 0.0)
            self._groups.give(place)
            self._tell(0.0)

    def surplus(self, want_more: float) -> float:
        owed: float = self._ask("surplus", *self._nodes(), want_more)
        return owed

    def close(self) -> None:
        self._held.clear()
        self._groups.clear()
        if not self._link.lost:
            self._arbiter.leave.remote(self._name)

    def _refused_lately(self, needs: Sequence[Need], now: float) -> bool:
        """Many workers that wait for the same are one question."""
        return needs == self._refused[0] and now - self._refused[1] < SAME_S

    def _book(self, needs: Sequence[Need], want_more: float) -> tuple[Place, ...] | None:
        """In the table; without devices, because Ray will choose them."""
        booked = self._ask("take", *self._nodes(), list(needs), want_more, self._last + 1)
        if booked is None:
            return None
        self._last += len(booked)
        self._held.update((place.id, place) for place in booked)
        return tuple(place._replace(devices=()) for place in booked)

    def _make_group(self, places: Sequence[Place], want_more: float) -> bool:
        """Where Ray has no room after all, another program was quicker: it is asked again later, and ever later."""
        known = self._link.nodes
        node_ids = [known[place.host][0] for place in places if place.host in known]
        if len(node_ids) == len(places) and self._groups.make(places, node_ids):
            self._wait_s = RETRY_S
            return True
        for place in places:
            del self._held[place.id]
        self._tell(want_more)
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

    def _tell(self, want_more: float) -> None:
        self._ask("hold", list(self._held.values()), want_more)

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._asked_at = time.monotonic()
        return self._link.call(self._get, method, arguments)

    def _get(self, method: str, arguments: Sequence[Any]) -> Any:
        try:
            return ray.get(getattr(self._arbiter, method).remote(self._name, *arguments))
        except RayActorError:
            # A new one knows nothing: each driver tells it what it holds, as it comes by.
            self._arbiter = find_or_make()
            ray.get(self._arbiter.hold.remote(self._name, list(self._held.values()), 0.0))
            return ray.get(getattr(self._arbiter, method).remote(self._name, *arguments))


def find_or_make() -> Any:
    """On the head, which is there as long as the cluster is."""
    options = {"name": NAME, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
    return ray.remote(Arbiter).options(num_cpus=0, resources={ray_nodes.HEAD: 0.001}, **options).remote()
