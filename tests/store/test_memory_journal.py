"""The journal for simulations: what a crash loses, and what it notices."""

from __future__ import annotations

import pytest

from shoal.errors import TakenOver
from shoal.model import Item, Outcome
from shoal.store import MemoryJournal

DONE = Outcome("done", {"x": 1})


@pytest.fixture
def journal() -> MemoryJournal:
    journal = MemoryJournal()
    journal.add([Item(1, "t1", {}), Item(2, "t2", {})])
    journal.commit()
    return journal


def test_a_crash_loses_what_was_not_committed(journal: MemoryJournal) -> None:
    journal.ended(1, 1, 0, "a", 0.0, DONE)
    journal.commit()
    journal.ended(2, 1, 0, "a", 0.0, DONE)
    journal.add([Item(3, "t3", {})])
    assert [item.id for item in journal.crash()] == ["t2"]
    assert journal.counts()["done"] == 1
    journal.ended(2, 1, 0, "a", 0.0, DONE)
    assert journal.violations == []


def test_a_new_driver_reads_the_attempts_that_were_recorded(journal: MemoryJournal) -> None:
    journal.started(1, 1, "a", 0.0, None)
    journal.requeued(2, 1, 1, "crash")
    journal.commit()
    journal.requeued(1, 1, 1, "crash")
    assert [(item.seq, item.attempt, item.used) for item in journal.crash()] == [(1, 1, 0), (2, 1, 1)]


def test_what_was_stopped_waits_again_for_a_new_driver(journal: MemoryJournal) -> None:
    journal.ended(1, 0, 0, "", 0.0, Outcome("stopped"))
    journal.commit()
    assert journal.violations == []
    assert [item.seq for item in journal.crash()] == [1, 2]


def test_reports_are_lost_with_the_tail_too(journal: MemoryJournal) -> None:
    journal.started(1, 1, "a", 0.0, None)
    journal.progressed(1, 1, 0.0, {"loss": 1}, 1)
    journal.commit()
    journal.progressed(1, 1, 0.0, {"loss": 2}, 2)
    journal.crash()
    assert [report.step for report in journal.reports(1)] == [1]


def test_an_end_after_the_end_is_noticed_and_ignored(journal: MemoryJournal) -> None:
    journal.ended(1, 1, 0, "a", 0.0, DONE)
    journal.commit()
    journal.ended(1, 2, 0, "a", 0.0, Outcome("failed"))
    assert journal.violations == ["item 1 ended again (attempt 2), but was done"]
    assert journal.crash() == [Item(2, "t2", {})]


def test_other_changes_after_the_end_are_noticed(journal: MemoryJournal) -> None:
    journal.ended(1, 1, 0, "a", 0.0, DONE)
    journal.started(1, 2, "a", 0.0, None)
    journal.requeued(1, 2, 0, None)
    assert len(journal.violations) == 2


def test_an_item_that_was_never_added_is_noticed(journal: MemoryJournal) -> None:
    journal.ended(9, 1, 0, "a", 0.0, DONE)
    journal.add([Item(1, "t1", {})])
    assert journal.violations == ["item 9 ended, but was never added", "item 1 was added twice"]


@pytest.mark.parametrize("state", ["done", "failed", "pruned"])
def test_a_result_of_an_attempt_that_is_over_is_noticed(journal: MemoryJournal, state: str) -> None:
    journal.started(1, 2, "a", 0.0, None)
    journal.requeued(1, 2, 0, "node lost")
    journal.ended(1, 2, 0, "a", 0.0, Outcome(state))
    journal.started(2, 2, "a", 0.0, None)
    journal.ended(2, 1, 0, "a", 0.0, Outcome(state))
    assert journal.violations == [
        "item 1 ended with attempt 2, but 2 is recorded",
        "item 2 ended with attempt 1, but 2 is recorded",
    ]


def test_a_result_of_the_driver_before_is_noticed(journal: MemoryJournal) -> None:
    journal.started(1, 1, "a", 0.0, None)
    journal.commit()
    journal.crash()
    journal.ended(1, 1, 0, "a", 0.0, DONE)
    assert journal.violations == ["item 1 ended with attempt 1, but 1 is recorded"]


def test_an_heir_has_what_was_committed_and_the_one_before_it_records_nothing_more(
    journal: MemoryJournal,
) -> None:
    journal.started(1, 1, "a", 0.0, None)
    journal.commit()
    journal.ended(2, 1, 0, "a", 0.0, DONE)
    heir = MemoryJournal(inherit=journal)
    for refused in (journal.commit, journal.ensure_ours):
        with pytest.raises(TakenOver):
            refused()
    heir.ensure_ours()
    assert [(item.seq, item.attempt) for item in heir.waiting_items()] == [(1, 1), (2, 0)]
    heir.commit()
    assert heir.counts()["done"] == 0
