"""How far nodes are from locations, from what was measured and what the file says."""

from __future__ import annotations

import pytest

from shoal.model import Node, RoundTrip
from shoal.planner.nearness import distance, distances, nearest
from shoal.spec import Location

CLOUD = Node("cloud", 8, 0, labels={"location": "nitos"})
EDGE = Node("edge", 1, 0, labels={"location": "home"})
BARE = Node("bare", 1, 0)
LOCATIONS = {
    "home": Location(probe="gateway.home:22"),
    "far": Location(known_s={"home": 0.02}),
    "nitos": Location(known_s={"far": 0.1, "nitos": 0.001}),
}
MEASURED = RoundTrip("gateway.home:22", 5, 0.03, 0.031, 0.002)


def test_what_was_measured_counts_more_than_a_label() -> None:
    found = distance(EDGE, "home", LOCATIONS, MEASURED)
    assert (found.round_trip_s, found.source, found.measured) == (0.03, "measured", MEASURED)


def test_a_node_that_is_said_to_be_there_is_at_no_distance() -> None:
    found = distance(EDGE, "home", LOCATIONS, None)
    assert (found.round_trip_s, found.source) == (0.0, "label")


def test_what_the_file_knows_counts_from_both_sides_and_more_than_a_label() -> None:
    assert distance(EDGE, "far", LOCATIONS, None)[2:4] == (0.02, "known")
    assert distance(CLOUD, "far", LOCATIONS, None)[2:4] == (0.1, "known")
    assert distance(CLOUD, "nitos", LOCATIONS, None)[2:4] == (0.001, "known")


@pytest.mark.parametrize(
    ("node", "location", "measured", "why"),
    [
        (CLOUD, "home", None, "not measured yet"),
        (CLOUD, "home", RoundTrip("gateway.home:22", 0, error="no answer"), "no answer"),
        (CLOUD, "home", RoundTrip("old.home:22", 5, 0.01, 0.01, 0.0), "not measured yet"),
        (BARE, "far", None, "location far has no probe, and the node has no label location"),
        (EDGE, "nitos", None, "location nitos has no probe, and no known round trip to home"),
    ],
    ids=["never", "failed", "another-probe", "no-label", "no-value"],
)
def test_what_is_not_known_has_a_reason(
    node: Node, location: str, measured: RoundTrip | None, why: str
) -> None:
    found = distance(node, location, LOCATIONS, measured)
    assert (found.round_trip_s, found.source, found.why) == (None, None, why)


def test_a_failed_measurement_leaves_what_is_known_and_is_told() -> None:
    found = distance(EDGE, "home", LOCATIONS, RoundTrip("gateway.home:22", 0, error="no answer"))
    assert (found.round_trip_s, found.source, found.why) == (0.0, "label", "no answer")


def test_the_nearest_of_each_location_are_marked_all_where_they_are_equal() -> None:
    twin = EDGE._replace(host="twin")
    found = nearest(distances([CLOUD, EDGE, twin, BARE], LOCATIONS, {"cloud": {"home": MEASURED}}))
    assert found == {
        ("edge", "home"),
        ("twin", "home"),
        ("edge", "far"),
        ("twin", "far"),
        ("cloud", "nitos"),
    }
