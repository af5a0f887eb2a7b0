"""A run on a cluster that grows meanwhile, and how long it would have taken at best. For a test and a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from clusters.desk import Desk

HOSTS = ("node0", "node1", "node2")
SLOTS = 2
"""Workers that each host has room for."""


class Grown(NamedTuple):
    """What a run was like that began on one host."""

    rows: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    """Every node that was asked for and came, with the reason."""
    began: float
    """When the first item started, and then when each further host was ready, in seconds since the epoch."""
    ready: list[float]
    took_s: float
    best_s: float
    """With the same hosts at the same times, were the work spread over them without any loss."""


def growing_cluster(desk: Desk, name: str = "lab") -> str:
    nodes = [{"host": host, "cpu": SLOTS, "memory": "1GiB"} for host in HOSTS]
    return desk.cluster(nodes, name=name, scale={"min": 1, "max": len(HOSTS), "idle": "10s"})


def run_growing(desk: Desk, cluster: str, trials: int, trial_s: float) -> Grown:
    """So many sleeping trials, to their end."""
    file = desk.sleeper("growing", trials, round(trial_s * 1000))
    run = desk.json("run", file, "--cluster", cluster)["run"]
    rows = desk.rows(run)
    changes = desk.json("show", run, "--why")["scaling"]
    began = min(seconds(row["started"]) for row in rows)
    ended = max(seconds(row["started"]) + row["seconds"] for row in rows)
    ready = sorted(seconds(each["at"]) for each in changes if each["change"] == "ready")
    best = best_end([began, *ready], trials * trial_s) - began
    return Grown(rows, changes, began, ready, ended - began, best)


def best_end(ready: Sequence[float], work_s: float) -> float:
    """When work that can be split at will is over at the earliest, on hosts that are there from these times on."""
    for count in range(1, len(ready) + 1):
        end = (work_s / SLOTS + sum(ready[:count])) / count
        if count == len(ready) or end <= ready[count]:
            break
    return end


def seconds(text: str) -> float:
    """Since the epoch."""
    return datetime.fromisoformat(text).timestamp()
