"""What a runner may know of itself: seconds that went by, by phase, and the memory its process holds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

now = time.perf_counter
"""Seconds on a clock that only runs forward."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Stopwatch:
    """Seconds by phase, summed over the threads that spent them; and how many things they got ready."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds: dict[str, float] = {}
        self.ready = 0

    def add(self, phase: str, seconds: float) -> None:
        with self._lock:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def count(self, number: int) -> None:
        with self._lock:
            self.ready += number

    @contextmanager
    def measuring(self, phase: str) -> Iterator[None]:
        began = now()
        try:
            yield
        finally:
            self.add(phase, now() - began)


def memory_bytes() -> int:
    """What this process holds in memory now; 0 where that cannot be known."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
    return 0


def busy_s() -> float:
    """Processor seconds that this process has used, all threads together."""
    return time.process_time()
