"""Measured round trips in a cluster's book: written with their time, read back, and when they are too old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.cluster.book import Book
from shoal.model import RoundTrip

KEY = "latency"
OLD_S = 3600.0
"""Round trips that were measured longer ago than this are measured again by whoever needs them."""


def remember(book: Book, answers: Mapping[str, Mapping[str, Any]], now_s: float) -> None:
    """What nodes answered, by host and location: it takes the place of what was measured to these locations before."""
    if not answers:
        return
    with book.change() as state:
        latency = state.setdefault(KEY, {})
        for host, found in answers.items():
            known = latency.setdefault(host, {})
            known.update({location: {**each, "measured_s": now_s} for location, each in found.items()})


def recall(book: Book, probes: Mapping[str, str]) -> dict[str, dict[str, RoundTrip]]:
    """By host and location; only what was measured to the very probes that the locations have now."""
    return {
        host: {
            location: RoundTrip(**each)
            for location, each in found.items()
            if location in probes and each["probe"] == probes[location]
        }
        for host, found in book.read().get(KEY, {}).items()
    }


def to_ask(
    hosts: Iterable[str],
    probes: Mapping[str, str],
    known: Mapping[str, Mapping[str, RoundTrip]],
    now_s: float,
) -> list[str]:
    """The hosts from which something was never measured, is too old, or had no answer when it was tried."""
    return [
        host
        for host in hosts
        if any(not _is_good(known.get(host, {}).get(location), now_s) for location in probes)
    ]


def _is_good(found: RoundTrip | None, now_s: float) -> bool:
    # A time that lies ahead is of a clock that was wrong then or is wrong now.
    return found is not None and found.minimum_s is not None and 0 <= now_s - found.measured_s <= OLD_S
