"""What this host is and has, how fast it is, and which Ray nodes run on it. Changes nothing."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any, NamedTuple

from shoal.cluster import this_machine
from shoal.cluster.agent import processes
from shoal.cluster.agent.requests import NODE_FILE, HostFacts, NodeFacts
from shoal.model.marks import LET_GO_FILE

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


def host_facts(known_speed: float | None = None) -> HostFacts:
    """This host; takes a moment where its speed has to be measured."""
    return HostFacts(
        os.uname().nodename,
        ".".join(platform.python_version_tuple()[:2]),
        metadata.version("shoal"),
        ray_version(),
        this_machine.cpus(),
        this_machine.memory_bytes(),
        this_machine.gpus(),
        known_speed or round(speed(), 3),
    )


def ray_version() -> str | None:
    try:
        return metadata.version("ray")
    except metadata.PackageNotFoundError:
        return None


def node_facts(folder: str) -> NodeFacts | None:
    """The node that keeps its things in this folder; None where it never ran or its Ray has died."""
    try:
        with open(os.path.join(folder, NODE_FILE), encoding="utf-8") as file:
            facts = NodeFacts(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    running = processes.of(folder)
    if not any(processes.is_raylet(command) for command in running.values()):
        return None
    if facts.dashboard is not None and not any(processes.is_head(command) for command in running.values()):
        return None
    return facts._replace(processes=tuple(sorted(running)))


def networks(folder: str) -> set[str]:
    """The namespaces that the nodes with folders in this one are kept in."""
    found = set()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name, NODE_FILE)
        with suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
            found.add(json.load(file)["network"])
    return found


def let_go(folder: str) -> dict[str, Any]:
    """The nodes that were let go as they stood idle, by host: when and why. Only a head knows."""
    try:
        with open(os.path.join(folder, LET_GO_FILE), encoding="utf-8") as file:
            changes = [json.loads(line) for line in file]
    except (OSError, ValueError):
        return {}
    return {change["host"]: change for change in changes}


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
    quota = this_machine.cpu_quota()
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
