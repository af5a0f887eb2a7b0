"""How fast this host is for one thread, relative to a reference: a short measurement.

Two things make a host slow, and are measured apart. A slow core takes more CPU time for the same work: the best of
many short rounds counts, so others on the host hardly matter. A quota of CPU time lets a core stand still for a part
of each period, a tenth of a second as a rule: no short round sees that, so it is read where it can be read, and looked
for over several periods.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from shoal.cluster import limits

REFERENCE_S = 0.00153
"""CPU time of a round where the speed is 1: on one core of an AMD EPYC server (Zen 4, 2.6 GHz), with CPython 3.11.

Part of the work is Python's own, so another version of Python may make the same machine a little faster or slower.
"""
MEASURED_S = 0.45
"""Four periods of a quota and a bit."""
PERIOD_S = 0.1
"""After which a quota is given anew: Linux's own choice, and that of whatever runs containers."""
STANDSTILL_S = 0.015
"""Whoever waits less than this for a core waits for its turn among others."""
LEAST_STANDSTILLS = 3
LATE_S = 0.003
"""How exactly they have to be a period apart; the round that stood still ends a little after the standstill."""


class Round(NamedTuple):
    """One round of work: when it ended, how long it took, and how much of that it was on a core."""

    ended_s: float
    wall_s: float
    cpu_s: float

    @property
    def stood_still_s(self) -> float:
        away_s = self.wall_s - self.cpu_s
        return away_s if away_s > STANDSTILL_S else 0.0


def speed() -> float:
    """1.0 on the reference; 0.5 on a core that is half as fast, and on one that may be used half of the time."""
    rounds = _rounds()
    quota = limits.cpu_quota()
    share = min(1.0, time_share(rounds), 1.0 if quota is None else quota)
    return share * REFERENCE_S / min(each.cpu_s for each in rounds)


def _rounds() -> list[Round]:
    rounds: list[Round] = []
    until = time.perf_counter() + MEASURED_S
    while not rounds or rounds[-1].ended_s < until:
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        _work()
        cpu_s = time.thread_time() - cpu_s
        ended_s = time.perf_counter()
        rounds.append(Round(ended_s, ended_s - began_s, cpu_s))
    return rounds


def time_share(rounds: Sequence[Round]) -> float:
    """The part of the time that a quota leaves; 1.0 where there is no sign of one.

    The sign is a standstill that ends at the same moment of every period, when the quota is given anew. On a host with
    much to do there may be standstills as well, but at any moment.
    """
    still = [each for each in rounds if each.stood_still_s]
    best = max((_regular(still, first) for first in still), key=len, default=[])
    if len(best) < LEAST_STANDSTILLS:
        return 1.0
    whole_s = best[-1].ended_s - best[0].ended_s  # A whole number of periods.
    return 1.0 - sum(each.stood_still_s for each in best[1:]) / whole_s


def _regular(still: Sequence[Round], first: Round) -> list[Round]:
    """This standstill and those that follow it period by period, without one being left out."""
    found = [first]
    for each in still:
        periods = (each.ended_s - found[-1].ended_s) / PERIOD_S
        # A standstill of several periods is one that the round's work needed more than one quota for.
        expected = max(1.0, round(each.wall_s / PERIOD_S))
        if abs(periods - expected) * PERIOD_S <= LATE_S + each.cpu_s:
            found.append(each)
    return found


def _work() -> None:
    """The interpreter, memory and arithmetic, about a third each; no instructions that only some processors have."""
    total = 0
    for number in range(11_000):
        total += number * number % 7
    sorted([number * 7919 % 100_003 / 7 for number in range(5_500)])
    pow(3, (1 << 540) - 1, (1 << 600) - 159)
