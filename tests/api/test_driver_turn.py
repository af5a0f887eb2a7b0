"""The turn of a driver, in the record and in places that come and go, are taken by others, or are full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.api import driver_turn
from shoal.api.driver_turn import Place
from shoal.errors import RunLocked, StoreError, TakenOver, Unreachable
from shoal.files import Storage, open_storage
from shoal.files.turns import Turns
from shoal.store import RunStore
from shoal.store.driver import Driver

NOW = 1000.0


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[[str], RunStore]:
    def make(home: str) -> RunStore:
        return RunStore.create(
            str(tmp_path / home),
            name="r",
            kind="sweep",
            spec_text="",
            document={},
            token=lambda: "0000",
            now=NOW,
        )

    return make


class Fickle:
    """A storage that can be away."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.is_away = False

    def __getattr__(self, name: str) -> object:
        if self.is_away:
            raise Unreachable("The server does not answer.")
        return getattr(self._storage, name)

    @property
    def url(self) -> str:
        return self._storage.url


@pytest.fixture
def storage(tmp_path: Path) -> Fickle:
    return Fickle(open_storage(str(tmp_path / "shared")))


def place(storage: Fickle, *, optional: bool = True) -> Place:
    return Place(Turns(storage, "turns"), optional=optional)  # type: ignore[arg-type]


def test_a_turn_is_above_all_that_were_taken_anywhere(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    Turns(storage, "turns").take(7, {"token": "x"})  # type: ignore[arg-type]
    with make_store("a") as store:
        assert driver_turn.take(store, [place(storage)], Driver.this(), NOW, print).number == 8
        assert store.turn() == 8


def test_of_two_heirs_in_two_homes_the_later_turn_counts(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    with make_store("a") as one, make_store("b") as other:
        first = driver_turn.take(one, [place(storage)], Driver.this("one"), NOW, print)
        second = driver_turn.take(other, [place(storage)], Driver.this("other"), NOW, print)
        assert (first.number, second.number) == (1, 2)
        second.ensure()
        with pytest.raises(TakenOver, match="turn 2"):
            first.ensure()


def test_an_heir_that_was_a_moment_too_late_is_refused(
    make_store: Callable[[str], RunStore], storage: Fickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_store("a") as one, make_store("b") as other:
        late = place(storage)
        monkeypatch.setattr(late, "highest", lambda: 0)
        driver_turn.take(one, [place(storage)], Driver.this("one"), NOW, print)
        with pytest.raises(RunLocked, match="at the same moment"):
            driver_turn.take(other, [late], Driver.this("late"), NOW, print)


def test_a_storage_that_is_away_is_gone_on_without_and_asked_again(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    said: list[str] = []
    storage.is_away = True
    with make_store("a") as store:
        turn = driver_turn.take(store, [place(storage)], Driver.this(), NOW, said.append)
        assert "does not answer" in said[0]
        with pytest.raises(Unreachable):
            turn.ensure()
        storage.is_away = False
        turn.ensure()
        assert Turns(storage, "turns").highest() == turn.number  # type: ignore[arg-type]


def test_who_could_not_leave_word_and_finds_another_there_is_out(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    storage.is_away = True
    with make_store("a") as store, make_store("b") as other:
        turn = driver_turn.take(store, [place(storage)], Driver.this(), NOW, lambda line: None)
        storage.is_away = False
        driver_turn.take(other, [place(storage)], Driver.this("other"), NOW, print)
        with pytest.raises(TakenOver):
            turn.ensure()


def test_what_is_found_while_watching_is_raised_by_a_quick_look(
    make_store: Callable[[str], RunStore], storage: Fickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_turn, "LOOK_S", 0.01)
    with make_store("a") as store:
        turn = driver_turn.take(store, [place(storage)], Driver.this(), NOW, print)
        turn.watch()
        turn.check()
        Turns(storage, "turns").take(2, {"token": "x"})  # type: ignore[arg-type]
        assert turn._thread is not None
        turn._thread.join(10)
        with pytest.raises(TakenOver, match="another process"):
            turn.check()


def test_a_record_that_cannot_be_written_leaves_no_word_elsewhere(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    with make_store("a") as store:
        store._connection.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreError):
            driver_turn.take(store, [place(storage)], Driver.this(), NOW, print)
    assert Turns(storage, "turns").highest() == 0  # type: ignore[arg-type]


def test_a_word_that_came_though_its_answer_was_lost_is_our_own(
    make_store: Callable[[str], RunStore], storage: Fickle
) -> None:
    driver = Driver.this("ours")
    here = place(storage)
    with make_store("a") as store:
        storage.is_away = True
        turn = driver_turn.take(store, [here], driver, NOW, lambda line: None)
        storage.is_away = False
        Turns(storage, "turns").take(turn.number, driver._asdict())  # type: ignore[arg-type]
        turn.ensure()
