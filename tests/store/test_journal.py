"""The journal in run.db: what was told is there after a commit, once, and nothing older replaces it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shoal.errors import StoreError
from shoal.model import Item, LogSlice, Outcome
from shoal.store import ItemRecord, Report, RunStore

NOW = 1_700_000_000.0
DONE = Outcome("done", {"accuracy": 0.5}, None, 2.0, LogSlice("w1.log", 10, 20), True)


def items(count: int, first: int = 1) -> list[Item]:
    return [Item(seq, f"t{seq}", {"lr": seq / 10}, None, f"c{seq}") for seq in range(first, first + count)]


def commits(run: RunStore) -> int:
    """How many statements changed rows so far."""
    return run._connection.total_changes


def test_nothing_is_recorded_before_the_commit(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(2))
    journal.ended(1, 1, 0, "node0", NOW, DONE)
    assert run.counts()["waiting"] == 0
    assert list(run.items()) == []
    journal.commit()
    assert run.counts()["waiting"] == 1
    assert run.counts()["done"] == 1


def test_everything_that_was_told_is_read_back(run: RunStore) -> None:
    item = Item(7, "t7", {"lr": 0.1, "DS": "ü \n'\"", "on": True, "n": None}, {"lr": "0.10"}, "c7", 3, 1, 1)
    journal = run.journal()
    journal.add([item])
    journal.started(7, 2, "node1", NOW, LogSlice("w1.log", 10))
    journal.progressed(7, 2, NOW + 1, {"loss": 0.5}, 1)
    journal.progressed(7, 2, NOW + 2, {"loss": 0.4, "note": "ü"}, None)
    journal.ended(7, 2, 1, "node1", NOW, DONE)
    journal.commit()
    assert run.item("t7") == ItemRecord(
        item._replace(attempt=2), "done", "node1", NOW, 2.0, {"accuracy": 0.5}, None, DONE.log, True
    )
    assert run.reports(7) == [
        Report(2, 1, NOW + 1, {"loss": 0.5}),
        Report(2, None, NOW + 2, {"loss": 0.4, "note": "ü"}),
    ]
    assert run.reports(8) == []


@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "each in its own"])
def test_the_path_of_an_item_is_the_same_however_it_is_cut_into_commits(
    run: RunStore, together: bool
) -> None:
    journal = run.journal()
    steps: list[tuple[str, tuple[Any, ...]]] = [
        ("add", (items(1),)),
        ("started", (1, 1, "node0", NOW, LogSlice("w0.log", 0))),
        ("requeued", (1, 1, 1, "crashed")),
        ("started", (1, 2, "node1", NOW + 5, LogSlice("w1.log", 70))),
        ("requeued", (1, 2, 1, None)),
    ]
    for name, arguments in steps:
        getattr(journal, name)(*arguments)
        if not together:
            journal.commit()
    journal.commit()
    record = run.item("t1")
    assert (record.state, record.item.attempt, record.item.used) == ("waiting", 2, 1)
    assert (record.node, record.error, record.log) == (None, "crashed", LogSlice("w1.log", 70))
    journal.ended(1, 3, 1, "node1", NOW + 9, Outcome("done"))
    journal.commit()
    assert run.item("t1").error is None
    assert run.counts()["done"] == 1
    assert run.counts()["waiting"] == 0


def test_an_item_that_still_runs_at_the_commit_is_shown_running(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(2))
    journal.started(2, 1, "node0", NOW, LogSlice("w.log", 4))
    journal.commit()
    assert run.counts()["running"] == 1
    assert run.item("t2").log == LogSlice("w.log", 4, None)


def test_an_item_that_starts_and_ends_within_one_commit_costs_one_write(run: RunStore) -> None:
    journal = run.journal()
    before = commits(run)
    journal.add(items(100))
    for seq in range(1, 101):
        journal.started(seq, 1, "node0", NOW, None)
        journal.ended(seq, 1, 0, "node0", NOW, DONE)
    journal.commit()
    assert commits(run) - before < 110


def test_a_commit_of_nothing_writes_nothing(run: RunStore) -> None:
    journal = run.journal()
    before = commits(run)
    journal.commit()
    assert commits(run) == before


@pytest.mark.parametrize("between", [True, False], ids=["committed", "uncommitted"])
def test_a_second_end_changes_nothing(run: RunStore, between: bool) -> None:
    journal = run.journal()
    journal.add(items(2))
    journal.commit()
    journal.ended(1, 1, 0, "node0", NOW, DONE)
    if between:
        journal.commit()
    journal.ended(1, 2, 0, "node1", NOW, Outcome("failed", {"accuracy": 0.9}, "late"))
    journal.requeued(1, 2, 1, "late")
    journal.started(1, 2, "node1", NOW, None)
    journal.commit()
    assert run.item("t1").state == "done"
    assert run.item("t1").metrics == {"accuracy": 0.5}
    assert sum(run.counts().values()) == 2
    assert run.counts()["done"] == 1
    assert run.counts()["waiting"] == 1


@pytest.mark.parametrize("between", [True, False], ids=["committed", "uncommitted"])
def test_an_older_attempt_never_replaces_a_newer_nor_hides_its_end(run: RunStore, between: bool) -> None:
    journal = run.journal()
    journal.add(items(1))
    journal.commit()
    journal.started(1, 5, "node0", NOW, None)
    if between:
        journal.commit()
    journal.ended(1, 4, 0, "node1", NOW, Outcome("done", {"accuracy": 0.1}))
    journal.ended(1, 5, 0, "node0", NOW, DONE)
    journal.commit()
    assert run.item("t1").metrics == {"accuracy": 0.5}


@pytest.mark.parametrize("between", [True, False], ids=["committed", "uncommitted"])
def test_an_end_of_an_attempt_before_the_one_that_was_requeued_is_dropped(
    run: RunStore, between: bool
) -> None:
    journal = run.journal()
    journal.add(items(1))
    journal.commit()
    journal.started(1, 2, "node0", NOW, None)
    journal.requeued(1, 2, 1, "crashed")
    if between:
        journal.commit()
    journal.ended(1, 1, 0, "node1", NOW, DONE)
    journal.commit()
    assert (run.item("t1").state, run.item("t1").item.attempt, run.item("t1").item.used) == ("waiting", 2, 1)
    assert run.counts()["waiting"] == 1


def test_a_stale_end_that_comes_first_does_not_hide_the_true_one_in_the_same_commit(run: RunStore) -> None:
    journal = run.journal()
    journal.add([items(1)[0]._replace(attempt=3)])
    journal.commit()
    journal.ended(1, 2, 0, "node1", NOW, Outcome("failed", {}, "stale"))
    journal.ended(1, 4, 0, "node0", NOW, DONE)
    journal.commit()
    assert run.item("t1").state == "done"
    assert run.counts()["done"] == 1
    assert sum(run.counts().values()) == 1


def test_reports_of_an_attempt_that_is_not_running_are_dropped(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(1))
    journal.progressed(1, 1, NOW, {"loss": 1}, 1)
    journal.started(1, 2, "node0", NOW, None)
    journal.progressed(1, 1, NOW, {"loss": 2}, 1)
    journal.progressed(1, 2, NOW, {"loss": 3}, 1)
    journal.ended(1, 2, 0, "node0", NOW, DONE)
    journal.progressed(1, 2, NOW, {"loss": 4}, 2)
    journal.commit()
    assert [report.metrics["loss"] for report in run.reports(1)] == [3]


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError

    __str__ = __repr__


def test_no_value_that_user_code_reports_can_break_the_record(run: RunStore) -> None:
    import numpy

    loop: list[Any] = []
    loop.append(loop)
    metrics = {
        "nan": math.nan,
        "inf": math.inf,
        "f32": numpy.float32(0.5),
        "array": numpy.arange(3),
        "big": 10**40,
        "surrogate": "\udcff",
        "nul": "a\0b",
        "object": {1, 2},
        "loop": loop,
        "unprintable": Unprintable(),
    }
    journal = run.journal()
    journal.add(items(1))
    error = "bad byte \udcff and \0"
    journal.ended(1, 1, 0, "nöde\ud800", NOW, Outcome("done", metrics, error))
    journal.commit()
    found = run.item("t1").metrics
    assert math.isnan(found["nan"])
    assert (found["inf"], found["f32"], found["array"]) == (math.inf, 0.5, [0, 1, 2])
    assert (found["big"], found["surrogate"], found["nul"]) == (10**40, "\udcff", "a\0b")
    assert (found["object"], found["loop"], found["unprintable"]) == ([1, 2], "<list>", "<Unprintable>")
    assert run.item("t1").error == "bad byte ? and \0"
    run.write_results()


@pytest.mark.parametrize(
    ("goal", "winner"), [("max", "t4"), ("min", "t2")], ids=["the largest", "the smallest"]
)
def test_the_best_is_known_without_reading_items(home: str, goal: str, winner: str) -> None:
    with RunStore.create(
        home,
        name="x",
        kind="sweep",
        spec_text="",
        document={},
        token=lambda: "0000",
        now=NOW,
        objective=("accuracy", goal),
    ) as run:
        journal = run.journal()
        journal.add(items(9))
        values = [math.nan, 1, 2.5, 9, "100", None, True, 9, 50]
        for seq, value in enumerate(values, 1):
            state = "failed" if value == 50 else "done"
            journal.ended(seq, 1, 0, "a", NOW, Outcome(state, {"accuracy": value}))
            if seq == 3:
                journal.commit()
        assert (run.info().best or {})["item"] == ("t3" if goal == "max" else "t2")
        journal.commit()
        assert (run.info().best or {})["item"] == winner
        assert run.best("accuracy", goal, 99)[0]["item"] == winner
        assert len(run.best("accuracy", goal, 99)) == 4


def test_after_a_failed_commit_the_next_one_writes_all_of_it_once(
    run: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = run.journal()
    journal.add(items(3))
    journal.commit()
    journal.add(items(2, first=4))
    journal.ended(1, 1, 0, "a", NOW, DONE)
    journal.started(2, 1, "a", NOW, None)
    journal.progressed(2, 1, NOW, {"loss": 1}, 1)
    run._connection.execute("PRAGMA query_only=ON")
    with pytest.raises(StoreError, match="read-only") as caught:
        journal.commit()
    assert f"shoal resume {run.run}" in (caught.value.hint or "")
    assert run.max_seq() == 3
    run._connection.execute("PRAGMA query_only=OFF")
    journal.ended(2, 1, 0, "a", NOW, DONE)
    journal.commit()
    journal.commit()
    assert run.counts()["done"] == 2
    assert run.counts()["waiting"] == 3
    assert len(run.reports(2)) == 1
    assert [record.state for record in run.items()] == ["done", "done", "waiting", "waiting", "waiting"]
