"""What tuners measured, as it is kept with a run: enough to draw it, and bounded. For learning there is more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.work.job import Learned

MOST_KINDS = 16
"""Kinds of node that are kept: more of them than anybody has."""
MOST_POINTS = 300
KEPT = ("chosen", "points", "scaling", "arrangements", "usl", "memory", "differences")


def curves(learned: Learned) -> dict[str, dict[str, Any]]:
    """By kind of node, from what its tuner tells. Where there are too many points, the best known ones stay."""
    return {kind: _curve(learned[kind]) for kind in list(learned)[:MOST_KINDS]}


def _curve(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: document[name] for name in KEPT if name in document}
    points = kept.get("points", [])
    if len(points) > MOST_POINTS:
        most_rows = sorted(range(len(points)), key=lambda index: -points[index]["rows"])
        kept["points"] = [points[index] for index in sorted(most_rows[:MOST_POINTS])]
    return kept
