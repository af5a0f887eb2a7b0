"""A CPU quota per host, through a cgroup below the tester's own. Both versions of cgroups; no memory limits.

Below the tester's own, so that limits set on the tests hold for the hosts, too.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
PERIOD_US = 20_000
"""Short, so that a slow host is slow evenly."""
LEAST_CPUS = 0.05
GONE_WITHIN_S = 10.0


def parent() -> tuple[Path, int] | None:
    """The folder for groups of beds, and the version of cgroups; `None` where there is no CPU controller."""
    unified = (MOUNTED / "cgroup.controllers").exists()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if unified and controllers == "":
            return MOUNTED / path.lstrip("/"), 2
        if not unified and "cpu" in controllers.split(","):
            return MOUNTED / "cpu" / path.lstrip("/"), 1
    return None


def create(bed: str, hosts: tuple[str, ...]) -> Path | None:
    """A group for the bed with one for each host in it; `None` where that is not allowed."""
    found = parent()
    if found is None:
        return None
    above, version = found
    group = above / f"shoal-bed-{bed}"
    try:
        if version == 2:
            (above / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if version == 2:
            (group / "cgroup.subtree_control").write_text("+cpu")
        for host in hosts:
            (group / host).mkdir()
    except OSError:
        remove(group)
        return None
    return group


def join(group: Path) -> None:
    """Move this process into a group."""
    (group / "cgroup.procs").write_text("0")


def limit_cpu(group: Path, cpus: float | None) -> None:
    """At most so many CPUs' worth of time for all of a host; `None` lifts the limit."""
    if cpus is not None and cpus < LEAST_CPUS:
        raise ValueError(f"cpus >= {LEAST_CPUS} must hold, but got {cpus}")
    quota_us = None if cpus is None else int(cpus * PERIOD_US)
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{'max' if quota_us is None else quota_us} {PERIOD_US}")
        return
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(-1 if quota_us is None else quota_us))


def remove(group: Path) -> None:
    """The group of a bed and all in it. A group can go only when its last process has: that is waited for."""
    deadline = time.monotonic() + GONE_WITHIN_S
    for folder in [*group.glob("*/"), group]:
        while folder.exists():
            with suppress(OSError):
                folder.rmdir()
                break
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
