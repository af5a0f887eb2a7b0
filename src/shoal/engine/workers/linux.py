"""The few Linux calls that keep processes from outliving their parents. Elsewhere they do nothing, and say so.

And how a process ended, in words.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

KILL_S = 1.0
"""How long to try to kill a process of another user."""
DYING_S = 5.0
"""How long one of ours may take to be gone after it was killed: freeing the memory of a GPU takes a while."""
PAUSE_S = 0.001
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


_left: set[int] = set()
"""Children that could not be killed."""


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


def kill_children(spared: Iterable[int] = ()) -> list[str]:
    """SIGKILL every child but the spared, with its process group, until none is left; reaps them.

    A sentence for each that does not end, and is spared from then on: it is another user's, or waits for a dead disk.
    """
    keep = _left.union(spared)
    began = time.monotonic()
    while doomed := children() - keep:
        patience_s = kill_groups(doomed)
        for pid in doomed:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() - began > patience_s:
            _left.update(doomed)
            return [cannot_end(pid) for pid in sorted(doomed)]
        time.sleep(PAUSE_S)
    return []


def cannot_end(pid: int) -> str:
    """The sentence for a process that SIGKILL does not end."""
    import pwd

    try:
        with open(f"/proc/{pid}/comm") as file:
            name = file.read().strip()
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"process {pid} could not be ended"
    with suppress(KeyError):
        return f"process {pid} ({name}) of user {pwd.getpwuid(owner).pw_name} cannot be ended; it was left"
    return f"process {pid} ({name}) of user {owner} cannot be ended; it was left"


def kill_marked(session: int, mark: str) -> list[str]:
    """SIGKILL what is left of a session, and what has `mark` (NAME=VALUE) in its environment, wherever it went.

    For what is below a process that was killed itself: it has another parent by now. Returns as `kill_children` does.
    """
    began = time.monotonic()
    while doomed := _marked(session, mark.encode()):
        patience_s = kill_groups(doomed)
        if time.monotonic() - began > patience_s:
            return [cannot_end(pid) for pid in doomed]
        time.sleep(10 * PAUSE_S)  # Each look is at all processes of the machine.
    return []


def _marked(session: int, mark: bytes) -> list[int]:
    """Those that have not ended; this process and the leader of the session are none of them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc") if sys.platform == "linux" else ()):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, _, of, *_ = file.read().rpartition(b")")[2].split()
            if state in (b"Z", b"X") or int(pid) in (os.getpid(), session):
                continue
            if 0 < session == int(of) or mark in _environment(pid):
                found.append(int(pid))
        except OSError:
            continue
    return found


def _environment(pid: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # It is another user's.
        return []


def kill_groups(pids: Iterable[int]) -> float:
    """SIGKILL each with its process group; how many seconds to wait for their end."""
    allowed = [kill_group(pid, signal.SIGKILL) for pid in pids]
    return DYING_S if any(allowed) else KILL_S


def kill_group(pid: int, number: int) -> bool:
    """Signal the group that a child leads, or led before it ended; else the child: whether we may."""
    for signal_it in (os.killpg, os.kill):
        try:
            signal_it(pid, number)
        except PermissionError:
            return False
        except OSError:
            continue
        break
    return True


def describe_status(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "gone for an unknown reason"
    if status >= 0:
        return f"the process exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    words = {
        "SIGSEGV": "segmentation fault",
        "SIGABRT": "aborted",
        "SIGBUS": "bus error",
        "SIGFPE": "arithmetic error",
        "SIGILL": "illegal instruction",
        "SIGKILL": "most likely out of memory, or somebody killed it",
    }
    return f"the process was killed by {name}" + (f" ({words[name]})" if name in words else "")
