"""Exit statuses of processes, in words."""

from __future__ import annotations

import signal


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
