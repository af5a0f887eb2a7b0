"""Points between a look and an act at which a driver can be suspended, for tests of what happens meanwhile.

`SHOAL_SUSPEND_AT` names one, as in `delete`, or `commit:3` for the third time that it is reached: the process stops
there (SIGSTOP) until somebody continues it (SIGCONT). Without the variable nothing happens.
"""

from __future__ import annotations

import os
import signal

_wanted, _, _times = os.environ.get("SHOAL_SUSPEND_AT", "").partition(":")
_left = int(_times or 1)


def suspended_at(point: str) -> None:
    """Stop here, if this is the point that was asked for."""
    global _left
    if point == _wanted:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
