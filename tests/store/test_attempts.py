"""Attempts that were not the last stay in the record, whoever made the item wait again."""

from __future__ import annotations

from shoal.model import Item, LogSlice, Outcome
from shoal.model.record import Attempt
from shoal.store import RunStore

NOW = 1_700_000_000.0
LOG = LogSlice("w0.log", 5)


def test_what_a_driver_left_running_or_stopped_is_an_earlier_attempt_of_the_next(run: RunStore) -> None:
    journal = run.journal()
    journal.add([Item(seq, f"t{seq}", {}) for seq in (1, 2, 3)])
    journal.started(1, 1, "a", NOW, LOG)
    journal.started(2, 1, "b", NOW, None)
    journal.ended(2, 1, 0, "b", NOW, Outcome("stopped", {}, "the run was stopped", 2.0, LOG))
    journal.commit()
    run.close()
    with RunStore.open(run.home, run.run, write=True) as store:
        store.journal()
        left = {
            1: [Attempt(1, 1, "a", NOW, None, "driver", None, LOG)],
            2: [Attempt(1, 1, "b", NOW, 2.0, "stopped", "the run was stopped", LOG)],
        }
        assert store.attempts() == left


def test_a_failure_that_is_taken_again_is_an_earlier_attempt(run: RunStore) -> None:
    journal = run.journal()
    journal.add([Item(1, "t1", {})])
    first = Attempt(1, 1, "a", NOW, 1.0, "crash", "crashed", None)
    journal.started(1, 1, "a", NOW, None)
    journal.requeued(1, 1, 1, "crashed", over=first)
    journal.ended(1, 2, 2, "b", NOW + 5, Outcome("failed", {}, "no luck", 2.0, LOG))
    journal.commit()
    assert run.take_failed_again() == 1
    assert run.attempts(1) == {1: [first, Attempt(2, 2, "b", NOW + 5, 2.0, "failed", "no luck", LOG)]}


def test_an_attempt_of_an_item_that_has_ended_is_not_kept(run: RunStore) -> None:
    journal = run.journal()
    journal.add([Item(1, "t1", {})])
    journal.ended(1, 2, 1, "b", NOW, Outcome("done"))
    journal.requeued(1, 1, 1, "late", over=Attempt(1, 1, "a", NOW, 1.0, "crash", "late", None))
    journal.commit()
    assert run.attempts() == {}
