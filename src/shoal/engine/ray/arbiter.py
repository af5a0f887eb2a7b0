"""Who holds what on a Ray cluster: one named actor that all drivers ask, and each driver's end of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from shoal.engine import leasing
from shoal.engine.leasing import Claim
from shoal.engine.ray.nodes import HEAD
from shoal.model import Need, Node, Place

NAME = "shoal-arbiter"
NAMESPACE = "shoal"
SILENT_S = 15.0
"""A driver that was not heard of for so long is gone, and holds nothing any more."""
ASK_S = 1.0
"""How often a driver that waits for nothing asks whether others are owed something."""


class Arbiter:
    """The actor. Each call names its driver, and counts as a sign of life."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._heard: dict[str, float] = {}

    def take(
        self, me: str, nodes: Sequence[Node], needs: Sequence[Need], want_more: float, waited_s: float
    ) -> list[tuple[str, tuple[str, ...]]] | None:
        mine = self._hear(me, want_more)
        return leasing.find(nodes, needs, mine, self._others(me), waited_s)

    def hold(self, me: str, places: Sequence[Place], want_more: float) -> None:
        """What the driver holds now, all of it."""
        self._hear(me, want_more)
        self._claims[me] = Claim(tuple(places), want_more)

    def surplus(self, me: str, nodes: Sequence[Node], want_more: float) -> float:
        return leasing.surplus(nodes, self._hear(me, want_more), self._others(me))

    def busy(self) -> list[str]:
        """The nodes that some driver holds a place on."""
        self._forget_the_silent()
        return sorted({place.host for claim in self._claims.values() for place in claim.places})

    def leave(self, me: str) -> None:
        self._claims.pop(me, None)
        self._heard.pop(me, None)

    def _hear(self, me: str, want_more: float) -> Claim:
        self._heard[me] = time.monotonic()
        self._forget_the_silent()
        self._claims[me] = self._claims.get(me, Claim())._replace(want_more=want_more)
        return self._claims[me]

    def _forget_the_silent(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._heard.items() if now - at > SILENT_S]:
            self.leave(name)

    def _others(self, me: str) -> dict[str, Claim]:
        return {name: claim for name, claim in self._claims.items() if name != me}


class RayLeases:
    """Keeps `reservations.Leases` through the arbiter. `nodes` gives those that are alive when it is asked."""

    def __init__(self, nodes: Callable[[], Sequence[Node]], name: str) -> None:
        self._nodes = nodes
        self._name = name
        self._held: dict[int, Place] = {}
        self._last = 0
        self._asked_at = 0.0
        self._arbiter = find_or_make()

    def changed(self) -> bool:
        return time.monotonic() - self._asked_at > ASK_S

    def take(self, needs: Sequence[Need], want_more: float, waited_s: float) -> tuple[Place, ...] | None:
        found = self._ask("take", list(self._nodes()), list(needs), want_more, waited_s)
        if found is None:
            return None
        places = tuple(self._place(need, *where) for need, where in zip(needs, found, strict=True))
        self._held.update((place.id, place) for place in places)
        self._tell(want_more - sum(need.cpu for need in needs))
        return places

    def give(self, place: Place) -> None:
        if self._held.pop(place.id, None) is not None:
            self._tell(0.0)

    def surplus(self, want_more: float) -> float:
        owed: float = self._ask("surplus", list(self._nodes()), want_more)
        return owed

    def close(self) -> None:
        self._held.clear()
        self._arbiter.leave.remote(self._name)

    def _place(self, need: Need, host: str, devices: tuple[str, ...]) -> Place:
        self._last += 1
        return Place(self._last, host, need, devices)

    def _tell(self, want_more: float) -> None:
        self._ask("hold", list(self._held.values()), want_more)

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._asked_at = time.monotonic()
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
    return ray.remote(Arbiter).options(num_cpus=0, resources={HEAD: 0.001}, **options).remote()
