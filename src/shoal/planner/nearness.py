"""How far each node is from each location, and which are the nearest. Measures nothing: it is given measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.model import Distance, Node, RoundTrip
from shoal.model.distance import KNOWN, LABEL, MEASURED
from shoal.spec import Location

LOCATION_LABEL = "location"

Measurements = Mapping[str, Mapping[str, RoundTrip]]
"""By host, then by location."""


def distances(
    nodes: Sequence[Node], locations: Mapping[str, Location], measured: Measurements
) -> list[Distance]:
    """Every node with every location, in the order of the nodes."""
    return [
        distance(node, name, locations, measured.get(node.host, {}).get(name))
        for node in nodes
        for name in locations
    ]


def distance(
    node: Node, location: str, locations: Mapping[str, Location], measured: RoundTrip | None
) -> Distance:
    """What was measured counts most, then what the file knows, then that the node is said to be there.

    A measurement to another probe than the location has now is of no use.
    """
    if measured is not None and measured.probe != locations[location].probe:
        measured = None
    problem = measured.error if measured is not None else ""
    if measured is not None and measured.minimum_s is not None:
        return Distance(node.host, location, measured.minimum_s, MEASURED, measured, problem)
    at = node.labels.get(LOCATION_LABEL)
    known_s = None if at is None else _known_s(at, location, locations)
    if known_s is not None:
        return Distance(node.host, location, known_s, KNOWN, measured, problem)
    if at == location:
        return Distance(node.host, location, 0.0, LABEL, measured, problem)
    return Distance(
        node.host, location, None, None, measured, problem or _why_unknown(location, at, locations)
    )


def _known_s(at: str, location: str, locations: Mapping[str, Location]) -> float | None:
    """From the table of either end: a round trip takes as long from the other side."""
    known_s = locations[location].known_s.get(at)
    if known_s is None and at in locations:
        known_s = locations[at].known_s.get(location)
    return known_s


def _why_unknown(location: str, at: str | None, locations: Mapping[str, Location]) -> str:
    if locations[location].probe is not None:
        return "not measured yet"
    if at is None:
        return f"location {location} has no probe, and the node has no label {LOCATION_LABEL}"
    return f"location {location} has no probe, and no known round trip to {at}"


def nearest(found: Sequence[Distance]) -> set[tuple[str, str]]:
    """Node and location of each that no other node is nearer to that location than; several where they are equal."""
    least: dict[str, float] = {}
    for each in found:
        if each.round_trip_s is not None:
            least[each.location] = min(each.round_trip_s, least.get(each.location, float("inf")))
    return {
        (each.node, each.location)
        for each in found
        if each.round_trip_s is not None and each.round_trip_s == least[each.location]
    }
