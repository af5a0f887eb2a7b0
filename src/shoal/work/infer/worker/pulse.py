"""Signs of life: an attempt that gets on says so now and then, and the time that it may take begins anew."""

from __future__ import annotations

from shoal.engine.workers.runner import Cancelled, Work
from shoal.engine.workers.stopwatch import now

SHARE = 0.1
"""Of the time that there is, what may go by until the driver is told: so much less than all of it an input gets."""


class Pulse:
    """Of one attempt. Beats where something was done, not by itself: what hangs is not to seem alive."""

    def __init__(self, work: Work, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._work = work
        self._told = now()

    def beat(self) -> None:
        """Something was done. Raises `Cancelled` when the attempt should have ended, and user code caught that."""
        if self._work.cancelled is not None:
            raise Cancelled
        if self.timeout_s is not None and now() - self._told >= SHARE * self.timeout_s:
            self._told = now()
            self._work.report({}, None)
