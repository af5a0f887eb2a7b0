"""What control groups allow this process: its own group, and every group around it that can be seen from here."""

from __future__ import annotations

import os
from collections.abc import Iterator

MOUNTED = "/sys/fs/cgroup"
MINE = "/proc/self/cgroup"


def cpu_quota(mounted: str = MOUNTED, mine: str = MINE) -> float | None:
    """How many CPUs' time it gets, such as 0.5; None without a limit."""
    quotas = [
        quota
        for folder in _groups("cpu", mounted, mine)
        for quota in (_quota(folder), _old_quota(folder))
        if quota is not None
    ]
    return min(quotas, default=None)


def memory_bytes(mounted: str = MOUNTED, mine: str = MINE) -> int | None:
    """None without a limit; a very large number is none either, and whoever asks knows what the machine has."""
    limits = [
        int(text)
        for folder in _groups("memory", mounted, mine)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder, name)) is not None and text.isdigit()
    ]
    return min(limits, default=None)


def _groups(controller: str, mounted: str, mine: str) -> Iterator[str]:
    """The folders of the groups, innermost first; in a container often only the outermost is there."""
    for line in (_read(mine) or "").splitlines():
        _, names, path = line.split(":", 2)
        if names == "":
            yield from _upwards(mounted, path)
        elif controller in names.split(","):
            yield from _upwards(os.path.join(mounted, controller), path)


def _upwards(base: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield os.path.join(base, *parts[:count])


def _quota(folder: str) -> float | None:
    quota, _, period = (_read(folder, "cpu.max") or "max").partition(" ")
    return None if quota == "max" else float(quota) / float(period)


def _old_quota(folder: str) -> float | None:
    """Of control groups version 1."""
    quota, period = _read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")
    return None if quota is None or period is None or int(quota) <= 0 else int(quota) / int(period)


def _read(*parts: str) -> str | None:
    try:
        with open(os.path.join(*parts)) as file:
            return file.read().strip()
    except OSError:
        return None
