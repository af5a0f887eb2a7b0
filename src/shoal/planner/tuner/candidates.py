"""What is worth a trial now: settings that may be better, what they may gain in the rest, what trying costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from shoal.model.advice import Setting
from shoal.planner.tuner import batches, explanation, gains
from shoal.planner.tuner.arrangements import Arrangement
from shoal.planner.tuner.curve import Estimate
from shoal.planner.tuner.knowledge import Knowledge

TRIAL_ITEMS = 2
"""Length of the trial of an arrangement, in items."""
CROWDED = 1 / 3
"""Share of an item's time that is lost before a trial, while some workers use twice the threads beside the others."""
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


def runtime(
    known: Knowledge,
    candidates: Collection[str],
    *,
    trying: Collection[str],
    loaded: Collection[str],
    rows: int,
    left_s: float,
    workers: int,
) -> str | None:
    """The runtime whose trial saves most, by a worker that has loaded some; None when none saves anything.

    `trying` are those that others try meanwhile, `workers` are at work in all.
    """
    now = known.estimate(known.chosen)
    if now is None or (known.on_gpu and known.rises(rows)):
        return None
    many = len(trying) >= max(1, known.workers() // 2)
    benefits: dict[str, float] = {}
    for name in known.usable():
        if name not in candidates or known.was_tried(name) or name in trying:
            continue
        if many and not is_promising(known, name):
            continue
        load_s = 0.0 if name in loaded else known.load_s.get(name, gains.LOAD_S)
        tried_s = min(rows, batches.rows_needed(known.chosen.batch, now.rate)) / now.rate
        benefits[name] = (
            _doubt(known, name, now, trying, left_s)
            ._replace(load_s=load_s, tried_s=tried_s, workers=workers)
            .benefit_s()
        )
        if benefits[name] <= 0:
            known.not_tried.setdefault(name, explanation.not_worth(benefits[name], left_s))
    worth = [name for name in benefits if benefits[name] > 0]
    return max(worth, key=lambda name: benefits[name], default=None)


def is_promising(known: Knowledge, name: str) -> bool:
    """Whether it is thought to be at least as fast as all that was measured."""
    return _guess(known, name).middle >= known.ratios.get(known.chosen.runtime, 1.0)


def _guess(known: Knowledge, name: str) -> gains.Guess:
    """Expected gain of a runtime, lowered where other runtimes gained less than expected."""
    told = [
        math.log(known.ratios[other] / gains.runtime(other, gpu=known.on_gpu).middle)
        for other in known.space.runtimes[1:]
        if known.ratios.get(other, 0.0) > 0
    ]
    guess = gains.runtime(name, gpu=known.on_gpu)
    shift = min(0.0, sum(told) / len(told)) / 2 if told else 0.0
    return gains.Guess(guess.middle * math.exp(shift), math.hypot(guess.spread, shift / 2))


def _doubt(known: Knowledge, name: str, now: Estimate, trying: Collection[str], left_s: float) -> gains.Doubt:
    given = known.best_of(known.space.runtimes[0])
    # Where it was not measured with the workers as they are now, how it once compared to the best one helps.
    ratio = 1.0 if given else known.ratios.get(known.chosen.runtime, 1.0)
    base = given[1] if given else now._replace(rate=now.rate / ratio)
    around_s = (1 - base.predicting) / base.rate
    now_s, guess = 1 / now.rate, _guess(known, name)
    for other in trying:  # What others find out meanwhile counts as if it was as good as one thinks.
        likely = _guess(known, other)
        then_s = around_s + (1 / base.rate - around_s) / likely.middle
        if then_s < now_s:
            left_s, now_s, guess = left_s * then_s / now_s, then_s, guess.over(likely)
    return gains.Doubt(guess, left_s, now_s, 1 / base.rate, around_s, load_s=0.0, tried_s=0.0, workers=1)


def arrangement(
    known: Knowledge, alive: int, item_s: float, left_s: float, surely_s: float
) -> tuple[Arrangement, Setting] | None:
    """Another arrangement that is worth a trial, and the setting for it; the reasons against others are kept.

    Fewer workers at a GPU gain little: they are tried where what is surely left suffices for that.
    """
    node_rate, law, current = known.rate(), known.law(), known.arranger.current
    if node_rate is None:
        return None
    enough = law.enough(current.workers) if law and len(known.scaling()) > 1 else current.workers
    for candidate in known.arranger.candidates(node_rate, enough, alive):
        setting = known.fitted(known.chosen._replace(threads=candidate.threads), candidate.workers)
        fewer_at_a_gpu = known.on_gpu and candidate.workers < current.workers
        reason = _against(known, candidate, setting, alive, item_s, surely_s if fewer_at_a_gpu else left_s)
        if reason is None:
            return candidate, setting
        known.arranger.reasons.setdefault(candidate, reason)
    return None


def _against(
    known: Knowledge, candidate: Arrangement, setting: Setting, alive: int, item_s: float, left_s: float
) -> str | None:
    """Why this arrangement is not tried now; None when it is."""
    current, law = known.arranger.current, known.law()
    more = candidate.workers - current.workers
    if candidate.workers > alive:
        return f"only {alive} worker{' is' if alive == 1 else 's are'} there"
    fits = known.memory.holds(setting.runtime, setting.batch, candidate.workers)
    if not fits or (known.space.workers is None and known.fitting(candidate.workers) < candidate.workers):
        return "memory does not suffice"
    is_fitted = len(known.scaling()) > 1
    if known.on_gpu and law is not None and is_fitted and more > 0 and not law.pays(current.workers, more):
        return f"{more} more would gain {law.gain(current.workers, more):.1%}, by the law of scalability"
    same = candidate.threads == current.threads
    busy = known.at_work() * current.threads
    cores = candidate.workers * candidate.threads / busy
    waiting = now.predicting if (now := known.estimate(known.chosen)) is not None else 1.0
    guess = gains.arrangement(fewer=more < 0, same=same, gpu=known.on_gpu, cores=cores, waiting=waiting)
    share = 0.0 if same else gains.RELOAD * min(1.0, candidate.workers / current.workers)
    load_s = share * known.load_s.get(setting.runtime, 0.0) + (0.0 if same or more > 0 else CROWDED * item_s)
    benefit_s = gains.arrangement_s(guess, _most(known, more), left_s, TRIAL_ITEMS * item_s, load_s)
    return None if benefit_s > 0 else explanation.not_worth(benefit_s, left_s)


def _most(known: Knowledge, more: int) -> float:
    """Upper bound of the gain of an arrangement; with fewer workers on a GPU, at most the time spent waiting for it."""
    now = known.estimate(known.chosen)
    if more >= 0 or not known.on_gpu or now is None:
        return math.inf
    return 1 / max(1e-3, 1 - now.predicting)


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
