"""What this machine has: CPUs and memory that this process may really use, and GPUs."""

from __future__ import annotations

import os
import sys
from functools import cache

from shoal.cluster import limits
from shoal.model import Node

SMI_S = 10.0


def this_machine() -> Node:
    """This machine as a node, within the limits that a container or a batch system set for this process."""
    devices = gpus()
    gpu_memory = gpu_memory_bytes() if devices else 0
    return Node(
        _host(), room(cpus()), memory_bytes(), len(devices), {}, devices=devices, gpu_memory_bytes=gpu_memory
    )


def _host() -> str:
    return os.uname().nodename or "localhost"


def cpus() -> float:
    """CPUs this process may use: its affinity, and the quota of its control groups, which may be below 1."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = limits.cpu_quota()
    return count if quota is None else min(count, quota)


def room(cpu: float) -> float:
    """The CPUs that work may be planned for: less than one is one that is slow, as its speed says."""
    return max(1.0, cpu)


def memory_bytes() -> int:
    """Memory of the machine, or of the control groups where that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = limits.memory_bytes()
    return physical if limit is None else min(physical, limit)


@cache
def gpus() -> tuple[str, ...]:
    """The NVIDIA GPUs that are visible here, by the names that CUDA_VISIBLE_DEVICES takes."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name for device in visible.split(",") if (name := device.strip()) and name != "-1")
    if sys.platform != "linux" or not os.path.isdir("/proc/driver/nvidia/gpus"):
        return ()
    return tuple(str(index) for index in range(len(os.listdir("/proc/driver/nvidia/gpus"))))


@cache
def gpu_memory_bytes() -> int:
    """Memory of the smallest GPU here, as NVIDIA's own tool says; 0 where it cannot be asked."""
    import subprocess

    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
        return min(int(line) for line in told.split()) << 20
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0
