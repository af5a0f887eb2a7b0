"""What this machine has: CPUs and memory that this process may really use, and GPUs."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from itertools import takewhile

from shoal.cluster import limits
from shoal.model import Node

SMI_S = 10.0
_DEVICE = re.compile(r"\d+|(?:GPU|MIG)-.+")
_LISTED, _NODES = "/proc/driver/nvidia/gpus", "/dev"
_NODE = re.compile(r"nvidia\d+")


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
    if visible is not None:  # CUDA leaves out what comes after a name that is none, too.
        return tuple(takewhile(_DEVICE.fullmatch, (name.strip() for name in visible.split(","))))
    if sys.platform != "linux" or not os.path.isdir(_LISTED) or not os.listdir(_LISTED):
        return ()
    # A container may see there what its machine has, and be given some of it, or nothing. Devices may come into being
    # when they are first asked for.
    given = sum(_NODE.fullmatch(name) is not None for name in os.listdir(_NODES)) or len(_told())
    return tuple(str(index) for index in range(given))


def gpu_memory_bytes() -> int:
    """Memory of the smallest GPU that is visible, as NVIDIA's own tool says; 0 where it cannot be known."""
    names = gpus()
    if any(name.startswith("MIG-") for name in names):
        return 0  # It tells what the whole GPU has.
    told = _told()
    by_name = [size for uuid, size in told if any(uuid.startswith(name) for name in names)]
    # It counts in another order than CUDA does.
    return min(by_name or [size for _, size in told], default=0) << 20


@cache
def _told() -> tuple[tuple[str, int], ...]:
    """The name and the megabytes of each GPU that may be used, visible or not; nothing where that cannot be asked."""
    import subprocess

    command = ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    pairs = [line.split(",") for line in told.splitlines() if line.startswith("GPU-")]
    # Where it shares the memory of the processors, there is no number.
    return tuple((uuid, int(size) if size.strip().isdigit() else 0) for uuid, size in pairs)
