"""How many threads read ahead of the model: none where they would be in its way, many where bytes are slow to come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

MOST_THREADS, MOST_LOCAL = 64, 8
REMOTE_THREADS = 8
"""To begin with, where inputs come over a network."""
SLOW_SHARE = 0.05
"""When reading, or waiting for it, takes more of the time than this, more threads read."""
IDLE_SHARE = 0.85
"""Where the cores are busier than this, more threads would not help."""
MOST_AHEAD = 4096
"""Inputs that wait for the model; pictures of 224 x 224 need 150 KB each."""


class Readers:
    """The threads of one worker that read and prepare. Adapts from item to item."""

    def __init__(self, *, remote: bool, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._remote = remote
        self._wanted = REMOTE_THREADS if remote else 0
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def executor(self, threads: int) -> ThreadPoolExecutor | None:
        """Those that prepare while the model runs; None where the thread of the model does it better by itself.

        With one thread for one core, a second would only take turns with the first. A model on a GPU leaves the cores
        to the others.
        """
        size = max(self._wanted, threads if self._on_gpu else threads - 1)
        if size == 0:
            return None
        if self._executor is None or size > self._size:
            if self._executor is not None:
                # What it has been given is still done: it may be of the next item.
                self._executor.shutdown(wait=False)
            self._executor = ThreadPoolExecutor(size, thread_name_prefix="shoal-read")
            self._size = size
        return self._executor

    @property
    def current(self) -> ThreadPoolExecutor | None:
        """The threads that there are now."""
        return self._executor

    def depth(self, batch: int) -> int:
        """How many inputs are prepared ahead: another batch, and something for every thread, as memory allows."""
        return min(2 * batch + 4 * self._size, max(batch, MOST_AHEAD))

    def learn(
        self, reading_s: float, decoding_s: float, waited_s: float, busy_s: float, wall_s: float, threads: int
    ) -> None:
        """After an item: where its time went. More threads help where bytes are what is waited for, not cores."""
        waits = (waited_s if self._executor is not None else reading_s) > SLOW_SHARE * wall_s
        for_bytes = self._remote or reading_s > 2 * decoding_s
        if waits and for_bytes and busy_s < IDLE_SHARE * wall_s * max(threads, 1):
            most = MOST_THREADS if self._remote else MOST_LOCAL
            self._wanted = min(most, max(2, 2 * max(self._wanted, self._size)))

    def close(self) -> None:
        """Nobody wants what they have not begun."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
