"""Points between a look and an act at which a driver can be suspended, for tests of what happens meanwhile.

`SHOAL_SUSPEND_AT` names one: the first time that it is reached, the process stops there (SIGSTOP) until somebody
continues it (SIGCONT). Without the variable nothing happens.
"""

from __future__ import annotations

import os
import signal

_wanted = os.environ.get("SHOAL_SUSPEND_AT")


def suspended_at(point: str) -> None:
    """Stop here, if this is the point that was asked for."""
    global _wanted
    if point == _wanted:
        _wanted = None
        os.kill(os.getpid(), signal.SIGSTOP)
