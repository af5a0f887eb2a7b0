"""Threads that read ahead: what they have been given is done, also when there come to be more of them."""

from __future__ import annotations

import threading

from shoal.engine.workers.runner import Stopwatch
from shoal.work.infer.worker.intake import REMOTE_THREADS, Intake, Readers


class Held:
    """An opened item whose inputs can be read as soon as somebody says so."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.may_read = threading.Event()

    def __len__(self) -> int:
        return self._count

    def keys(self, positions):
        return {"path": list(positions)}

    def read(self, position):
        assert self.may_read.wait(60)
        return position


class AsItIs:
    def one(self, raw):
        return raw

    def batch(self, prepared):
        return list(prepared)


def test_inputs_that_were_read_ahead_are_there_when_more_threads_come():
    readers = Readers(remote=True, on_gpu=False)
    first = readers.executor(1)
    held = Held(500)
    intake = Intake(held, AsItIs(), Stopwatch())
    intake.reach_ahead(first, 500)  # Far more than the threads can have begun with.
    readers.learn(reading_s=1.0, decoding_s=0.0, waited_s=1.0, busy_s=0.0, wall_s=1.0, threads=1)
    second = readers.executor(1)
    assert second is not first
    assert second._max_workers > REMOTE_THREADS
    held.may_read.set()
    assert [entry.value for entry in intake.take(500)] == list(range(500))
    readers.close()
