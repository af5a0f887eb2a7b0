"""The turn in the record: what an earlier driver tells is refused, and records of 0.1 are brought to it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import RunLocked, TakenOver
from shoal.model import Item, Outcome
from shoal.model.record import Kept, RunEvent
from shoal.store import RunStore, schema
from shoal.store.driver import Driver, refuse_the_living

NOW = 1_700_000_000.0


@pytest.fixture
def heir(run: RunStore) -> Callable[[], RunStore]:
    """Another driver takes the run, whoever has its lock."""

    def make() -> RunStore:
        store = RunStore.open(run.home, run.run, write=True, now=NOW, take_over=True)
        store.journal()
        return store

    return make


def test_a_driver_that_was_replaced_commits_nothing(run: RunStore, heir: Callable[[], RunStore]) -> None:
    journal = run.journal()
    journal.add([Item(1, "t1", {})])
    journal.commit()
    journal.ensure_ours()
    with heir() as later:
        journal.ended(1, 1, 1, "node0", NOW, Outcome("done"))
        for _ in range(2):
            with pytest.raises(TakenOver, match=rf"process {os.getpid()} on .* \(turn 2\)"):
                journal.commit()
        with pytest.raises(TakenOver):
            journal.ensure_ours()
        assert later.counts()["done"] == 0


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.set_state("succeeded", NOW),
        lambda store: store.keep(Kept()),
        lambda store: store.take_failed_again(),
        lambda store: store.beat(NOW),
        lambda store: store.write_results(),
    ],
    ids=["state", "note", "failed", "beat", "results"],
)
def test_a_driver_that_was_replaced_changes_nothing_of_the_run(
    run: RunStore, heir: Callable[[], RunStore], act: Callable[[RunStore], object]
) -> None:
    run.journal()
    with heir() as later:
        later.set_state("running", NOW)
        with pytest.raises(TakenOver):
            act(run)
        assert later.state() == "running"


def test_a_turn_that_somebody_has_is_not_taken_again(run: RunStore, heir: Callable[[], RunStore]) -> None:
    run.journal()
    with heir() as later, pytest.raises(RunLocked):
        later.take_turn(2, Driver.this(), NOW)


def test_who_takes_over_by_force_has_the_lock_from_then_on(
    run: RunStore, heir: Callable[[], RunStore]
) -> None:
    run.journal()
    with heir():
        run.close()
        with pytest.raises(RunLocked):
            RunStore.open(run.home, run.run, write=True)
    RunStore.open(run.home, run.run, write=True).close()


@pytest.mark.parametrize(
    ("change", "heard", "refused"),
    [
        ({"pid": 1, "start": 0}, NOW, False),
        ({"machine": "another"}, NOW - 59, True),
        ({"machine": "another"}, NOW - 61, False),
        ({"machine": "another"}, None, False),
    ],
    ids=["dead", "heard-of", "not-heard-of", "never-heard-of"],
)
def test_a_driver_is_replaced_only_if_it_is_dead_or_was_not_heard_of(
    change: dict[str, object], heard: float | None, refused: bool
) -> None:
    driver = Driver.this()._replace(**change)  # type: ignore[arg-type]
    if refused:
        with pytest.raises(RunLocked, match="heard of 59 s ago"):
            refuse_the_living("r", driver, heard, NOW)
    else:
        refuse_the_living("r", driver, heard, NOW)


def as_of_version_2(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE attempts")
    connection.execute("DROP TABLE events")
    changes = [{"at": NOW, "host": "node1", "change": "requested", "why": "it saves 25s"}]
    connection.execute("INSERT INTO run VALUES('note.scaling', ?)", (json.dumps(changes),))
    connection.execute("PRAGMA user_version=2")


def as_of_version_1(store: RunStore) -> str:
    """The record as 0.1 wrote it; its path."""
    path = os.path.join(store.folder, "run.db")
    with sqlite3.connect(path) as connection:
        as_of_version_2(connection)
        connection.execute("ALTER TABLE run RENAME TO meta")
        connection.execute("UPDATE meta SET key='epoch' WHERE key='turn'")
        connection.execute("PRAGMA user_version=1")
    return path


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_record_is_read_as_it_lies_and_brought_to_the_present_version(
    run: RunStore, version: int
) -> None:
    run.journal().add([Item(1, "t1", {})])
    run.journal().commit()
    run.close()
    if version == 1:
        as_of_version_1(run)
    else:
        with sqlite3.connect(os.path.join(run.folder, "run.db")) as connection:
            as_of_version_2(connection)
    requested = RunEvent(NOW, "node node1", "requested", "it saves 25s")
    with RunStore.open(run.home, run.run, write=False) as reader:
        assert (reader.events(), reader.attempts()) == ([requested], {})
    with RunStore.open(run.home, run.run, write=True) as store:
        store.journal().noted(NOW + 1, "node node1", "ready", "")
        store.journal().commit()
        assert store.events() == [requested, RunEvent(NOW + 1, "node node1", "ready", "")]
        assert "scaling" not in schema.read_notes(store._connection), "nothing is kept twice"


def test_a_driver_of_version_1_that_still_lives_fails_instead_of_writing(run: RunStore) -> None:
    run.journal().add([Item(1, "t1", {})])
    run.journal().commit()
    run.close()
    old = sqlite3.connect(as_of_version_1(run))
    old.execute("INSERT INTO meta VALUES('last', '1.0') ON CONFLICT(key) DO UPDATE SET value=excluded.value")
    old.commit()
    with RunStore.open(run.home, run.run, write=True) as store:
        assert store.turn() == 1
        with pytest.raises(sqlite3.OperationalError, match="no such table: meta"):
            old.execute(
                "INSERT INTO meta VALUES('last', '2.0') ON CONFLICT(key) DO UPDATE SET value=excluded.value"
            )
    old.close()


def test_of_checkpoints_of_version_1_those_of_items_that_had_begun_are_adopted(run: RunStore) -> None:
    journal = run.journal()
    journal.add([Item(1, "t1", {}, content="aa"), Item(2, "t2", {}, content="bb")])
    journal.started(1, 1, "node0", NOW, None)
    journal.commit()
    run.close()
    as_of_version_1(run)
    for name in ("t1", "t2"):
        Path(run.folder, "checkpoints", name).mkdir(parents=True)
    RunStore.open(run.home, run.run, write=True).close()
    assert sorted(os.listdir(Path(run.folder, "checkpoints"))) == ["t1-aa", "t2"]
