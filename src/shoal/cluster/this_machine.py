"""This machine and this process: CPUs, memory and GPUs it may use, its folder, clock, chance and environment."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import takewhile
from typing import Any

from shoal.errors import SpecError
from shoal.files import write_text
from shoal.model import Node
from shoal.model.marks import ANSWER_VARIABLE

SMI_S = 10.0
_DEVICE = re.compile(r"\d+|(?:GPU|MIG)-.+")
_LISTED, _NODES = "/proc/driver/nvidia/gpus", "/dev"
_NODE = re.compile(r"nvidia\d+")
MOUNTED = "/sys/fs/cgroup"
MINE = "/proc/self/cgroup"


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
    quota = cpu_quota()
    return count if quota is None else min(count, quota)


def room(cpu: float) -> float:
    """The CPUs that work may be planned for: less than one is one that is slow, as its speed says."""
    return max(1.0, cpu)


def memory_bytes() -> int:
    """Memory of the machine, or of the control groups where that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit_bytes()
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


def answer_starter(answer: Mapping[str, Any]) -> None:
    """Tell whoever started this process and waits whether its run has begun, as an agent answers. The first counts."""
    path = os.environ.pop(ANSWER_VARIABLE, None)
    if path is not None:
        with suppress(OSError):
            write_text(path, json.dumps(answer), durable=False)


class Here:
    """Passed in where others need it, so that only this module touches the real ones."""

    def __init__(self) -> None:
        try:
            self.folder = os.getcwd()
        except FileNotFoundError:
            raise SpecError(
                "The current folder does not exist any more.", hint="Go to another one with cd."
            ) from None
        self.environment: Mapping[str, str] = os.environ

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def token(self, length: int) -> str:
        """So many random hexadecimal digits."""
        return os.urandom((length + 1) // 2).hex()[:length]

    def has_begun(self) -> None:
        """This process drives a run now: say so to whoever started it and waits for that, and to nobody else."""
        answer_starter({"ok": "running"})

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def cpu_quota(mounted: str = MOUNTED, mine: str = MINE) -> float | None:
    """How many CPUs' time it gets, such as 0.5; None without a limit."""
    quotas = [
        quota
        for folder in _groups("cpu", mounted, mine)
        for quota in (_quota(folder), _old_quota(folder))
        if quota is not None
    ]
    return min(quotas, default=None)


def memory_limit_bytes(mounted: str = MOUNTED, mine: str = MINE) -> int | None:
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
