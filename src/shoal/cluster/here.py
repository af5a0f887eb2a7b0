"""This machine and this process, as the layers above see them: the folder, the environment, the clock, chance."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress

from shoal.errors import SpecError
from shoal.model.marks import BEGUN_VARIABLE


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
        mark = os.environ.pop(BEGUN_VARIABLE, None)
        if mark is not None:
            with suppress(OSError), open(mark, "w"):
                pass

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
