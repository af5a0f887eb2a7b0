"""What this host is and has, how fast it is, and which Ray nodes run on it. Changes nothing."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import suppress
from importlib import metadata
from typing import Any

from shoal.cluster import this_machine
from shoal.cluster.agent import processes
from shoal.cluster.agent.requests import NODE_FILE, HostFacts, NodeFacts
from shoal.model.marks import LET_GO_FILE

REFERENCE_S = 0.00153
"""CPU time of a round where the speed is 1: on one core of an AMD EPYC server (Zen 4, 2.6 GHz), with CPython 3.11.

Part of the work is Python's own, so another version of Python may make the same machine a little faster or slower.
"""
MEASURED_S = 0.25
"""Seconds of rounds of work, of which the fastest counts."""


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


def speed() -> float:
    """1.0 on the reference; 0.5 on a core that is half as fast, and on one that may be used half of the time."""
    taken: list[float] = []
    until = time.perf_counter() + MEASURED_S
    while not taken or time.perf_counter() < until:
        began = time.thread_time()
        _work()
        taken.append(time.thread_time() - began)
    return min(1.0, this_machine.cpu_quota() or 1.0) * REFERENCE_S / min(taken)


def _work() -> None:
    """The interpreter, memory and arithmetic, about a third each; no instructions that only some processors have."""
    total = 0
    for number in range(11_000):
        total += number * number % 7
    sorted([number * 7919 % 100_003 / 7 for number in range(5_500)])
    pow(3, (1 << 540) - 1, (1 << 600) - 159)
