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

REFERENCE_S = 0.0046
"""CPU time of a round on the machine that has speed 1: one core of an AMD EPYC server (Zen 4, 2024) with CPython 3.11.

Part of the work is Python's own, so another version of Python may make the same machine a little faster or slower.
"""
MEASURED_S = 0.42
"""Four periods of a quota and a bit."""
STANDSTILL_S = 0.02
"""Whoever waits longer for a core than this waits for its quota; for its turn among others it waits less."""

ENOUGH = 0.4
"""The part of the measured time that whole periods have to cover: standstills closer together are no quota's."""


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
    """The part of the time in which it was not standing still.

    From the end of one standstill to the end of another is a whole number of periods, whenever the first of them began.
    """
    still = [index for index, each in enumerate(rounds) if each.stood_still_s]
    total_s = sum(each.wall_s for each in rounds)
    if still:
        whole = rounds[still[0] + 1 : still[-1] + 1]
        whole_s = sum(each.wall_s for each in whole)
        if whole_s >= ENOUGH * total_s:
            return 1.0 - sum(each.stood_still_s for each in whole) / whole_s
    return 1.0 - sum(each.stood_still_s for each in rounds) / total_s


def _work() -> None:
    """The interpreter, memory and arithmetic, about a third each; no instructions that only some processors have."""
    total = 0
    for number in range(32_000):
        total += number * number % 7
    sorted([number * 7919 % 100_003 / 7 for number in range(16_000)])
    pow(3, (1 << 800) - 1, (1 << 900) - 159)
