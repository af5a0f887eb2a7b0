"""Which settings may be better than the best one so far, as far as measurements allow: where to look next. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from shoal.model.advice import Setting
from shoal.planner.tuner import batches
from shoal.planner.tuner.knowledge import Knowledge

MOST_MEASURED = 6
"""So many measurements decide between points that are close to each other."""
DOUBT = 2.0
"""Deviations by which a point may be better than it looks."""
BETTER = 0.02
"""What a point must promise to be looked at."""
HOPEFUL = 1.12
"""What a batch that was not measured may gain, on top of what its neighbours suggest."""
CONTENDER = 0.92
"""A runtime above this share of the best is looked at again when the workers are arranged anew."""


class Hope(NamedTuple):
    """What a setting may turn out to do."""

    score: float
    setting: Setting


def best_hope(
    known: Knowledge, runtimes: Iterable[str], rows: int, pending: Callable[[Setting], int], most: int
) -> Setting | None:
    """The setting of these runtimes that promises most, if an item of so many inputs would show it.

    Points with `most` measurements are known well enough; `pending` counts those that are under way.
    """
    best = known.estimate(known.chosen)
    if best is None:
        return None
    hopes = [
        hope
        for name in runtimes
        for hope in _hopes(known, name, pending, most)
        if hope.score > best.score * (1 + BETTER)
        if rows >= 3 * hope.setting.batch or hope.setting.batch == 1
    ]
    return max(hopes, key=lambda hope: (hope.score, -hope.setting.batch)).setting if hopes else None


def _hopes(known: Knowledge, runtime: str, pending: Callable[[Setting], int], most: int) -> list[Hope]:
    points, noise = known.known(runtime), known.curve.noise()
    if not points:
        return _again(known, runtime, pending)
    found: list[Hope] = []
    for setting, estimate in points.items():
        count = estimate.sure + pending(setting)
        if count < most:
            found.append(Hope(estimate.score * (1 + DOUBT * noise / math.sqrt(max(0.25, count))), setting))
    scores = {setting.batch: estimate.score for setting, estimate in points.items()}
    model, top = batches.fit(scores), max(scores.values())
    for batch in known.unmeasured(runtime):
        setting = known.setting(runtime, batch)
        if model is not None and not pending(setting):
            found.append(Hope(min(2 * top, HOPEFUL * max(top, model.rate(batch))), setting))
    return found


def _again(known: Knowledge, runtime: str, pending: Callable[[Setting], int]) -> list[Hope]:
    """A runtime that came close, and was not measured with the workers as they are now."""
    best = known.estimate(known.chosen)
    close = known.ratios.get(runtime, 0.0) > CONTENDER * max(known.ratios.values(), default=1.0)
    setting = known.setting(runtime, known.chosen.batch)
    if best is None or not close or pending(setting):
        return []
    return [Hope(best.score * HOPEFUL, setting)]
