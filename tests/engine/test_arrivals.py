"""What comes from workers to their driver: written down, judged, and put onto the driver's clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.engine.ray.checkpoints import Home
from shoal.engine.ray.remote_worker import WINDOW_S, Arrivals, Clock
from shoal.engine.workers import parcels
from shoal.engine.workers.messages import Label, Log, Parcel
from shoal.model import ItemEnded, ItemProgressed, ItemStarted, LogSlice, Outcome, WorkerLost, WorkerReady

HOUR_S = 3600.0


def ended(seq: int, state: str = "done", error: str | None = None) -> ItemEnded:
    return ItemEnded(1, seq, 1, 5.0, Outcome(state, {"x": 1}, error, 0.5, LogSlice("log", 0, 1), kept=True))


@pytest.fixture
def arrivals(tmp_path: Path) -> Arrivals:
    return Arrivals(str(tmp_path), "log", Home())


def refuse(arrivals: Arrivals, label: Label) -> str | None:
    """A parcel with a name that no disk takes."""
    return arrivals.take(Parcel(label, 0, [parcels.File("n" * 300, 0o644, 0.0)]))


def test_a_log_is_whole_however_often_a_part_of_it_comes(arrivals: Arrivals, tmp_path: Path) -> None:
    for start, data in ((0, b"one\n"), (4, b"two\n"), (4, b"two\n"), (8, b"three\n")):
        arrivals.take(Log(start, data))
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"


def test_an_item_whose_files_the_disk_does_not_take_has_failed_and_no_other(arrivals: Arrivals) -> None:
    assert refuse(arrivals, Label("files", "t2", 2)) is None
    assert arrivals.judged(ended(1)) == ended(1)
    judged = arrivals.judged(ended(2))
    assert isinstance(judged, ItemEnded)
    assert (judged.outcome.state, judged.outcome.kept) == ("failed", False)
    assert str(judged.outcome.error).startswith("what it left in SHOAL_ITEM_DIR cannot be kept: 'nnn")
    assert str(judged.outcome.error).endswith("File name too long")
    assert arrivals.judged(ended(2)) == ended(2), "a later attempt is another matter"
    refuse(arrivals, Label("files", "t3", 3))
    pruned = arrivals.judged(ended(3, "pruned", "worse than others"))
    assert isinstance(pruned, ItemEnded)
    assert (pruned.outcome.state, pruned.outcome.error) == ("pruned", "worse than others")


def test_a_checkpoint_that_the_disk_does_not_take_is_said_and_the_item_goes_on(arrivals: Arrivals) -> None:
    told = refuse(arrivals, Label("checkpoint", "t1-c"))
    assert str(told).startswith("The checkpoint t1-c cannot be kept by the driver: ")
    assert arrivals.judged(ended(1)) == ended(1)


def test_what_an_earlier_attempt_left_is_gone_before_the_next_leaves_something(
    arrivals: Arrivals, tmp_path: Path
) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "first").touch()
    for message in parcels.addressed(Label("files", "t1", 1), parcels.blocks(str(tmp_path / "left"))):
        arrivals.take(message)
    assert os.listdir(tmp_path / "items" / "t1") == ["first"]
    arrivals.judged(ItemStarted(1, 1, 1, 0.0))
    assert os.listdir(tmp_path / "items" / "t1") == ["first"]
    arrivals.expect_again(1, "t1")
    arrivals.judged(ItemStarted(1, 1, 2, 0.0))
    assert os.listdir(tmp_path / "items") == []


@pytest.mark.parametrize("off_s", [-HOUR_S, 0.0, HOUR_S])
def test_times_of_a_clock_that_is_off_come_out_on_ours(off_s: float) -> None:
    clock, now = Clock(), 1_700_000_000.0
    clock.heard(now + off_s, now + 0.3)
    clock.heard(now + 1 + off_s, now + 1.002)
    ready = clock.ours(WorkerReady(1, now + 1 + off_s, 0.5))
    started = clock.ours(ItemStarted(1, 1, 1, now + 1.5 + off_s))
    assert isinstance(ready, WorkerReady)
    assert isinstance(started, ItemStarted)
    assert ready.at == pytest.approx(now + 1, abs=0.01)
    assert started.at == pytest.approx(now + 1.5, abs=0.01)
    lost = WorkerLost(1, now, "crash", "")
    assert clock.ours(lost) is lost, "that time is ours already"


def test_times_never_go_back_and_are_never_ahead_when_more_is_known() -> None:
    clock = Clock()
    clock.heard(100.0, 5.0)
    first = clock.ours(ItemStarted(1, 1, 1, 100.0))
    clock.heard(101.0, 5.1)
    second = clock.ours(ItemProgressed(1, 1, 1, 100.1, {}, None))
    third = clock.ours(ItemProgressed(1, 1, 1, 101.0, {}, None))
    times = [event.at for event in (first, second, third) if isinstance(event, ItemStarted | ItemProgressed)]
    assert times == [5.0, 5.0, pytest.approx(5.1)]


def test_a_machine_that_was_suspended_is_right_again_after_a_while() -> None:
    clock = Clock()
    clock.heard(100.0, 100.0)
    clock.heard(101.0, 101.0 + HOUR_S)  # It slept for an hour, and does not know.
    event = clock.ours(ItemStarted(1, 1, 1, 101.0))
    assert isinstance(event, ItemStarted)
    assert event.at == pytest.approx(101.0 + HOUR_S)
    clock.heard(102.0, 102.0 + HOUR_S + WINDOW_S / 2)
    clock.heard(103.0, 103.0 + HOUR_S)
    event = clock.ours(ItemStarted(1, 2, 1, 103.0))
    assert isinstance(event, ItemStarted)
    assert event.at == pytest.approx(103.0 + HOUR_S)
