"""Client libraries with threads of their own do not survive a fork: said at once, where they would wait for ever."""

from __future__ import annotations

import os

from shoal.errors import FileError

_first_used: dict[str, int] = {}


def check_process(library: str) -> None:
    """Call before a library is used. It may be used in any process, unless a parent had used it before the fork."""
    if _first_used.setdefault(library, os.getpid()) != os.getpid():
        raise FileError(
            f"{library} was used before this process was forked, and cannot be used in it.",
            hint="Start the process another way (multiprocessing: spawn), or open files only after the fork.",
        )
