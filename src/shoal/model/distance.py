"""How far nodes are from locations: what was measured, and what is known all in all. Values only."""

from __future__ import annotations

from typing import NamedTuple

MEASURED, KNOWN, LABEL = "measured", "known", "label"
"""Where a distance comes from: a probe, the table in the cluster file, or the node's own label `location`."""


class RoundTrip(NamedTuple):
    """Round trips that were measured from one node to one probe."""

    probe: str
    samples: int
    """How many were answered; the seconds are None where none was."""
    minimum_s: float | None = None
    median_s: float | None = None
    spread_s: float | None = None
    """How much longer the slowest took than the fastest."""
    error: str = ""
    """What went wrong, with all of them or with some."""
    measured_s: float = 0.0
    """When, in seconds since the epoch, by the clock of whoever asked."""


class Distance(NamedTuple):
    """The round trip between a node and a location."""

    node: str
    location: str
    round_trip_s: float | None
    """The least that is known of it; None where nothing is."""
    source: str | None = None
    """`measured`, `known` or `label`; None where nothing is known."""
    measured: RoundTrip | None = None
    """The last measurement, also one that failed."""
    why: str = ""
    """Why nothing is known, or what went wrong with measuring it."""
