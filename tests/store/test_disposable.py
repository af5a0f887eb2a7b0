"""Versions of the small databases: older files are kept and brought up to date, newer ones are left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shoal.store import list_runs, profiles
from shoal.store.profiles import (
    Database,
    changing,
    reading,
    recall,
    recall_learned,
    remember,
    remember_learned,
)
from shoal.store.run import RunStore

OLD = Database("words.db", ("CREATE TABLE words(word TEXT)",))
NEW = Database(
    "words.db", (*OLD.steps, "ALTER TABLE words ADD COLUMN length INT;UPDATE words SET length=length(word)")
)


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A home with a file of the old version, with one word in it."""
    with changing(str(tmp_path), OLD) as connection:
        connection.execute("INSERT INTO words VALUES('fish')")
    return str(tmp_path)


def version(home: str, file: str = "words.db") -> int:
    with closing(sqlite3.connect(Path(home, file))) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def raise_version(home: str, file: str) -> bytes:
    """Make a file one of a Shoal that is to come; its content."""
    with closing(sqlite3.connect(Path(home, file))) as connection:
        connection.execute("PRAGMA user_version=99")
    return Path(home, file).read_bytes()


def test_an_older_file_is_read_without_being_changed(old: str) -> None:
    before = Path(old, "words.db").read_bytes()
    with reading(old, NEW) as connection:
        assert connection.execute("SELECT * FROM words").fetchall() == [("fish", 4)]
    assert Path(old, "words.db").read_bytes() == before


def test_an_older_file_keeps_what_it_holds_when_it_is_brought_up_to_date(old: str) -> None:
    with changing(old, NEW) as connection:
        connection.execute("INSERT INTO words VALUES('eel', 3)")
    assert version(old) == 2
    with reading(old, NEW) as connection:
        assert connection.execute("SELECT * FROM words").fetchall() == [("fish", 4), ("eel", 3)]


def test_a_step_that_fails_leaves_the_older_file_as_it_was(old: str) -> None:
    broken = Database("words.db", (*OLD.steps, "DELETE FROM words;ALTER TABLE others ADD COLUMN x"))
    with pytest.raises(sqlite3.OperationalError, match="no such table"), changing(old, broken):
        pass
    assert version(old) == 1
    with reading(old, OLD) as connection:
        assert connection.execute("SELECT * FROM words").fetchall() == [("fish",)]


def test_a_file_that_took_no_step_is_made(tmp_path: Path) -> None:
    (tmp_path / "words.db").write_bytes(b"")
    with pytest.raises(sqlite3.OperationalError, match="holds nothing"), reading(str(tmp_path), OLD):
        pass
    with changing(str(tmp_path), OLD) as connection:
        connection.execute("INSERT INTO words VALUES('eel')")
    assert version(str(tmp_path)) == 1


def test_what_a_newer_version_learned_is_left_alone_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "_told", set())
    home = str(tmp_path)
    remember(home, "f", "n", [("a", 1.0)], now=1.0)
    remember_learned(home, "f", {"n": {"batch": 8}}, now=1.0)
    kept = [raise_version(home, file) for file in ("profiles.db", "learned.db")]
    for _ in range(2):
        remember(home, "f", "n", [("a", 5.0)], now=2.0)
        remember_learned(home, "f", {"n": {"batch": 1}}, now=2.0)
        assert (recall(home, "f"), recall_learned(home, "f")) == (None, {})
    assert [Path(home, file).read_bytes() for file in ("profiles.db", "learned.db")] == kept
    assert [record.getMessage() for record in caplog.records] == [
        f"{home}/profiles.db was written by a newer Shoal: the durations in it are neither used nor added to.",
        f"{home}/learned.db was written by a newer Shoal: the settings learned in it are neither used nor added to.",
    ]


def test_runs_are_listed_without_a_newer_index_and_it_is_left_alone(
    home: str, run: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    kept = raise_version(home, "index.db")
    run.set_state("running", 1.0)
    assert [(each.run, each.state) for each in list_runs(home)] == [(run.run, "running")]
    assert Path(home, "index.db").read_bytes() == kept
    assert caplog.records == []
