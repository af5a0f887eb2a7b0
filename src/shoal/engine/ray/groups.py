"""Placement groups: how Ray is told what Shoal holds, so that other programs on the cluster get the rest and no more.

Each place is a group of one bundle on the node the arbiter chose, so that it can be given back by itself. Ray removes
them when this driver's job is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from shoal.engine.ray.link import Link
from shoal.model import Need, Place

READY_S = 1
"""How long groups may take where Ray showed room for them: milliseconds, unless another program was quicker.
Whole seconds, because Ray drops the rest."""
NODE_LABEL = "ray.io/node-id"


class _Group(NamedTuple):
    group: PlacementGroup
    node_id: str


class Groups:
    """The groups of one driver, by place."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._groups: dict[int, _Group] = {}

    def make(self, places: Sequence[Place], node_ids: Sequence[str]) -> bool:
        """Whether Ray made room for all of the places; if not, it keeps none."""
        bundles = [resources(place.need) for place in places]
        made = self._link.call(_make, bundles, node_ids)
        for place, group, node_id in zip(places, made, node_ids, strict=False):
            self._groups[place.id] = _Group(group, node_id)
        return bool(made)

    def options(self, place: Place) -> Mapping[str, Any]:
        """What makes an actor run in the place, with all that was set aside there."""
        need = place.need
        return {
            "num_cpus": need.cpu,
            "num_gpus": need.gpu,
            "memory": need.memory_bytes or None,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(self._groups[place.id].group, 0),
        }

    def node_id(self, place: Place) -> str:
        """Ray's id of the node that the place is on."""
        return self._groups[place.id].node_id

    def give(self, place: Place) -> None:
        """The place is free; one that was given back already is ignored."""
        if place.id in self._groups:
            self._link.tell(remove_placement_group, self._groups.pop(place.id).group)

    def clear(self) -> None:
        for made in self._groups.values():
            self._link.tell(remove_placement_group, made.group)
        self._groups.clear()


def resources(need: Need) -> dict[str, float]:
    """A bundle for a need, in Ray's words."""
    wanted = {"CPU": need.cpu, "GPU": need.gpu, "memory": need.memory_bytes}
    # Ray has no empty bundles: a worker that asks for nothing holds one byte.
    return {name: amount for name, amount in wanted.items() if amount > 0} or {"memory": 1}


def _make(bundles: Sequence[dict[str, float]], node_ids: Sequence[str]) -> list[PlacementGroup]:
    """A group for each bundle, or none at all."""
    groups = [
        placement_group([bundle], bundle_label_selector=[{NODE_LABEL: node_id}])
        for bundle, node_id in zip(bundles, node_ids, strict=True)
    ]
    if all(group.wait(READY_S) for group in groups):
        return groups
    for group in groups:
        remove_placement_group(group)
    return []
