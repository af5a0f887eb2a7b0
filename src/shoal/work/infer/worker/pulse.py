"""Signs of life: an attempt that gets on says so now and then, and the time that it may take begins anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.engine.workers.runner import Cancelled, Work
from shoal.engine.workers.stopwatch import now

SHARE = 0.1
"""Of the time that there is, what may go by until the driver is told: so much less than all of it an input gets."""
LOADING_S = 600.0
"""How long loading a model may take, however short the time for inputs is: some are converted for minutes."""


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

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While a model is loaded, which is nothing that could be done bit by bit: beats by itself, for a while."""
        if self.timeout_s is None:
            yield
            return
        over = threading.Event()
        beating = threading.Thread(target=self._beat_until, args=(over, SHARE * self.timeout_s), daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()

    def _beat_until(self, over: threading.Event, every_s: float) -> None:
        until = now() + LOADING_S
        while not over.wait(every_s) and now() < until and self._work.cancelled is None:
            try:
                self._work.report({}, None)
            except Cancelled:  # For the thread that loads, which hears of it by itself.
                return
