"""Whether it pays to try something: what may be gained over the rest of the run against what trying costs. Pure.

Before something was tried, what it may gain is a guess: a factor with a spread, from machines that were measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

UNKNOWN_S = 600.0
"""While it is not known how much is left, there is probably a lot."""


class Guess(NamedTuple):
    """How many times as fast something may be: a middle, and a spread of the logarithm."""

    middle: float
    spread: float

    def factors(self) -> tuple[float, ...]:
        """Nine factors, each as likely as the others."""
        return tuple(self.middle * math.exp(self.spread * z) for z in _LIKELY)

    def over(self, other: Guess) -> Guess:
        """How much faster than something else that is not known, either."""
        return Guess(self.middle, math.hypot(self.spread, other.spread))


_LIKELY = (-1.59, -0.97, -0.59, -0.28, 0.0, 0.28, 0.59, 0.97, 1.59)
"""The normal distribution, cut into nine equal parts."""

RUNTIMES = {"frozen": Guess(1.25, 0.2), "onnxruntime": Guess(1.65, 0.3), "openvino": Guess(2.0, 0.35)}
"""What the model itself gains against being run as it was given, on processors."""
ON_GPU = Guess(1.15, 0.25)
OTHER = Guess(1.5, 0.35)
LOAD_S = 4.0
"""What loading a runtime takes, before it is known."""
FEWER_WORKERS = Guess(0.95, 0.15)
"""What half the workers with twice the threads do on processors."""
MORE_AT_A_GPU, FEWER_AT_A_GPU = Guess(1.1, 0.4), Guess(0.97, 0.3)
"""The same for twice or half the workers at a GPU; for half where all of their time is spent waiting for it."""
AS_MANY = Guess(1.0, 0.05)
RELOAD = 1 / 5
"""Loading a runtime once more, for other threads, against the first time."""


def runtime(name: str, *, gpu: bool) -> Guess:
    """How much faster the model may be with this runtime than as given."""
    return ON_GPU if gpu else RUNTIMES.get(name, OTHER)


def arrangement(*, fewer: bool, same: bool, gpu: bool, cores: float = 1.0, waiting: float = 1.0) -> Guess:
    """What another number of workers may do; with the `same` threads, fewer are tried where they promise as much.

    `cores` is how many times as many cores it has use for: more than 1 where some are idle for want of workers.
    `waiting` is the share of their time that workers wait for a GPU now: fewer are in each other's way less.
    """
    if gpu and fewer:
        return FEWER_AT_A_GPU._replace(spread=FEWER_AT_A_GPU.spread * waiting**2)
    if gpu:
        return MORE_AT_A_GPU
    guess = AS_MANY if same else FEWER_WORKERS
    return guess._replace(middle=guess.middle * math.sqrt(max(1.0, cores)))


class Doubt(NamedTuple):
    """A runtime that was not tried yet, and what matters for the question whether it should be."""

    guess: Guess
    left_s: float
    """How long the rest of the run takes as things are."""
    now_s: float
    """Seconds of an input: `now_s` with the best runtime so far, `given_s` with the model as given, `around_s` without
    the model."""
    given_s: float
    around_s: float
    load_s: float
    tried_s: float
    """How long the trial itself takes, once it is loaded."""
    workers: int
    """Workers at work during the trial, its own included."""

    def benefit_s(self) -> float:
        """Seconds of the run that trying saves on average; below 0 when it costs more."""
        gained, lost = 0.0, 0.0
        factors = self.guess.factors()
        for factor in factors:
            new_s = self.around_s + (self.given_s - self.around_s) / factor
            gained += max(0.0, self.left_s * (1 - new_s / self.now_s) - self.load_s)
            lost += self.load_s + self.tried_s * max(0.0, 1 - self.now_s / new_s)
        return (gained - lost / self.workers) / len(factors)


def arrangement_s(guess: Guess, most: float, left_s: float, trial_s: float, load_s: float) -> float:
    """Seconds that a trial of another number of workers saves on average; its speed-up is at `most` this."""
    factors = [min(most, factor) for factor in guess.factors()]
    gained = sum(max(0.0, left_s * (1 - 1 / factor)) for factor in factors)
    lost = sum(trial_s * max(0.0, 1 - factor) for factor in factors)
    return (gained - lost) / len(factors) - load_s


class Remaining:
    """Inputs that are left, updated with each hand-out. Rates are those of all workers together."""

    def __init__(self) -> None:
        self._given = 0
        self._left: int | None = None
        """Inputs that were not handed out before the last item, its own included."""
        self._again_at = math.inf

    def hand_out(self, rows: int, left: int | None) -> None:
        self._given += rows
        self._left = left

    def seconds(self, rate: float) -> float:
        """How long the rest takes."""
        return UNKNOWN_S if self._left is None else self._left / rate

    def surely_s(self, rate: float) -> float:
        """A cautious estimate: a run whose end is unknown is taken to be half done."""
        return self.seconds(rate) if self._left is not None else min(UNKNOWN_S, self._given / rate)

    def is_late(self, rows: int, workers: int) -> bool:
        """Whether other workers run out of items before this one ends: it would then be faster than usual."""
        return self._left is not None and workers > 1 and self._left - rows < workers * rows / 2

    def settle(self) -> None:
        """While the end is unknown, ask again once twice as many inputs were handed out."""
        self._again_at = 2 * self._given if self._left is None else math.inf

    def is_to_look_again(self) -> bool:
        """Whether what did not pay is to be asked again."""
        return self._given >= self._again_at
