"""What a driver knows of a worker from its messages."""

from __future__ import annotations

from shoal.engine.workers import messages
from shoal.engine.workers.worker_links import Known
from shoal.model import Need, Place


def ended(seq: int) -> messages.Ended:
    return messages.Ended(seq, 1, 2.0, "failed", {}, "no checkpoint", 0.0, 0, 0, kept=False)


def test_an_item_that_could_not_begin_does_not_hide_the_one_that_runs() -> None:
    known = Known(1, Place(1, "here", Need()), "logs/1.log")
    known.hear(messages.Started(1, 1, 1.0, 0), 1.0)
    known.hear(ended(2), 2.0)
    assert known.running == (1, 1)
    known.hear(ended(1), 3.0)
    assert known.running is None
