"""The few Linux calls that keep processes from outliving their parents. Elsewhere they do nothing, and say so."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    status: int = ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    return status == 0


def become_subreaper() -> bool:
    """Orphans below this process become its own children, wherever they went."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """SIGKILL for this process when the thread that made it ends."""
    return _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def children() -> set[int]:
    """The processes whose parent is this one (adopted orphans too). Empty where the system cannot say."""
    found: set[int] = set()
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                found.update(int(pid) for pid in file.read().split())
        except OSError:
            continue
    return found


def kill_children(spared: Iterable[int] = ()) -> None:
    """SIGKILL every child but the spared, with its process group, until none is left; reaps them."""
    keep = set(spared)
    for _ in range(1000):
        doomed = children() - keep
        if not doomed:
            return
        for pid in doomed:
            kill_group(pid, signal.SIGKILL)
        for pid in doomed:
            try:
                os.waitpid(pid, 0)
            except OSError:
                continue


def kill_group(pid: int, number: int) -> None:
    """Signal a child that may or may not lead a process group; one that is gone is ignored."""
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except OSError:
        return
