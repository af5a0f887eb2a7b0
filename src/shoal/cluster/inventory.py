"""What this machine has: CPUs and memory that this process may really use, and GPUs."""

from __future__ import annotations

import os
import sys
from functools import cache

from shoal.model import Node


def this_machine() -> Node:
    """This machine as a node, within the limits that a container or a batch system set for this process."""
    devices = gpus()
    return Node(_host(), cpus(), memory_bytes(), len(devices), {}, devices=devices)


def _host() -> str:
    return os.uname().nodename or "localhost"


def cpus() -> float:
    """CPUs this process may use: its affinity, and the quota of its control group."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = _cpu_quota()
    return count if quota is None else max(1.0, min(count, quota))


def _cpu_quota() -> float | None:
    text = _read("/sys/fs/cgroup/cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
        return None if quota == "max" else float(quota) / float(period)
    quota_v1, period_v1 = (
        _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    )
    if quota_v1 is None or period_v1 is None or int(quota_v1) <= 0:
        return None
    return int(quota_v1) / int(period_v1)


def memory_bytes() -> int:
    """Memory of the machine, or of the control group where that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(path)
        if text is not None and text.isdigit():
            return min(physical, int(text))
    return physical


@cache
def gpus() -> tuple[str, ...]:
    """The NVIDIA GPUs that are visible here, by the names that CUDA_VISIBLE_DEVICES takes."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name for device in visible.split(",") if (name := device.strip()) and name != "-1")
    if sys.platform != "linux" or not os.path.isdir("/proc/driver/nvidia/gpus"):
        return ()
    return tuple(str(index) for index in range(len(os.listdir("/proc/driver/nvidia/gpus"))))


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
