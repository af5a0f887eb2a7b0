"""A search over parameters as an ask-and-tell value: Optuna's samplers and pruners, in memory, behind our words.

Knows nothing of items, engines or files. Many trials may be asked for before the first is told.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import optuna

from shoal.errors import SpecError


class Range(NamedTuple):
    """`kind` is log, int, float or choice."""

    kind: str
    low: float = 0.0
    high: float = 0.0
    choices: Sequence[Any] = ()


class Search:
    """`ask` for trials, `report` their curves, `tell` their ends."""

    def __init__(
        self,
        space: Mapping[str, Range],
        *,
        goal: str = "max",
        sampler: str = "tpe",
        pruner: str = "none",
        seed: int | None = None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = {name: _distribution(range_) for name, range_ in space.items()}
        self._trials: dict[int, optuna.Trial] = {}
        self._behind: set[int] = set()
        """Trials of earlier sessions that were to be pruned when those ended."""
        self._has_rungs = pruner == "asha"
        self._points = _points(space) if sampler == "grid" else None
        self.size = None if self._points is None else len(self._points)
        """How many different trials there are; None when there is no end to them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna marks what it may still change; our own tests watch it.
            chosen = _sampler(sampler, seed)
            self._study = optuna.create_study(
                direction="maximize" if goal == "max" else "minimize",
                sampler=chosen,
                pruner=_pruner(pruner),
            )
            self._drawn_before = optuna.create_study(sampler=chosen)

    def ask(self) -> tuple[int, dict[str, Any]]:
        """The number of a new trial, and its parameters."""
        if self._points:
            self._study.enqueue_trial(self._points.pop(0))
        trial = self._begin()
        return trial.number, {name: trial.params[name] for name in self._space}

    def _begin(self) -> optuna.Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._study.ask(self._space)
        self._trials[trial.number] = trial
        return trial

    def ask_again(self, params: Mapping[str, Any]) -> int:
        """A trial of an earlier session, in the order in which they were asked for: it may be reported and told.

        The sampler draws for it, too, as it did then: so it goes on with what it would have drawn next.
        """
        self._visited(params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._drawn_before.tell(self._drawn_before.ask(self._space), state=optuna.trial.TrialState.FAIL)
        self._study.enqueue_trial({name: params[name] for name in self._space if name in params})
        return int(self._begin().number)

    def _visited(self, params: Mapping[str, Any]) -> None:
        if self._points and dict(params) in self._points:
            self._points.remove(dict(params))

    def report(self, number: int, step: int, value: float) -> bool:
        """A point of a trial's curve: whether the trial should be pruned."""
        return self._note(number, step, value) and (self._is_behind(number) or number in self._behind)

    def report_again(self, number: int, curve: Sequence[tuple[int, float]]) -> None:
        """The curve of a trial of an earlier session. One that was to be pruned when that ended will be."""
        behind = False
        for place, (step, value) in enumerate(curve, 1):
            # ASHA keeps with a trial what it had at each rung; others only look at curves.
            if self._note(number, step, value) and (self._has_rungs or place == len(curve)):
                behind = self._is_behind(number)
        if behind:
            self._behind.add(number)

    def _note(self, number: int, step: int, value: float) -> bool:
        """Whether that is a point of a curve."""
        trial = self._trials.get(number)
        if trial is None or step < 0 or not math.isfinite(value):
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial.report(value, step)
        return True

    def _is_behind(self, number: int) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(self._trials[number].should_prune())

    def tell(self, number: int, value: float | None, *, pruned: bool = False) -> None:
        """A trial's end; None when it has no value to learn from."""
        trial = self._trials.pop(number, None)
        if trial is None:
            return
        states = optuna.trial.TrialState
        if pruned:
            self._study.tell(trial, state=states.PRUNED)
        elif value is None or not math.isfinite(value):
            self._study.tell(trial, state=states.FAIL)
        else:
            self._study.tell(trial, value)


def _distribution(range_: Range) -> optuna.distributions.BaseDistribution:
    if range_.kind == "choice":
        return optuna.distributions.CategoricalDistribution(list(range_.choices))
    if range_.kind == "int":
        return optuna.distributions.IntDistribution(int(range_.low), int(range_.high))
    return optuna.distributions.FloatDistribution(range_.low, range_.high, log=range_.kind == "log")


def _points(space: Mapping[str, Range]) -> list[dict[str, Any]]:
    """Every combination. Optuna's own grid sampler cannot be asked and told."""
    values = [_values(name, range_) for name, range_ in space.items()]
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def _sampler(name: str, seed: int | None) -> optuna.samplers.BaseSampler:
    if name in ("random", "grid"):
        return optuna.samplers.RandomSampler(seed=seed)
    # Trials in flight count as probably bad, so that many workers do not all try the same spot.
    return optuna.samplers.TPESampler(seed=seed, constant_liar=True)


def _values(name: str, range_: Range) -> list[Any]:
    if range_.kind == "choice":
        return list(range_.choices)
    if range_.kind == "int":
        return list(range(int(range_.low), int(range_.high) + 1))
    raise SpecError(
        f"trials.search.{name}: sampler grid needs values that can be counted, found a {range_.kind} range.",
        hint="Use choice: [...] or int: [...], or another sampler.",
    )


def _pruner(name: str) -> optuna.pruners.BasePruner:
    if name == "asha":
        # The first rung has to be fixed: found out from the first trial that ends, it comes after trials in flight
        # have passed it, and prunes them for what they had at other steps.
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=1)
    if name == "median":
        return optuna.pruners.MedianPruner()
    return optuna.pruners.NopPruner()
