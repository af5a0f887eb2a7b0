"""A journal without a disk, for simulations: what was not committed is lost in a `crash`, or to an heir.

It also watches: whatever a shape tells it that cannot be true is kept in `violations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.errors import TakenOver
from shoal.model import Item, ItemState, LogSlice, LostCause, Outcome
from shoal.model.record import Attempt, RunEvent
from shoal.model.states import FINAL, UNFINISHED
from shoal.store.items import ItemRecord, Report, no_items


class _Record:
    """What the journals of one run share."""

    __slots__ = ("attempts", "events", "items", "reports", "turn")

    def __init__(self) -> None:
        self.items: dict[int, ItemRecord] = {}
        self.reports: list[tuple[int, Report]] = []
        self.attempts: dict[int, list[Attempt]] = {}
        self.events: list[RunEvent] = []
        self.turn = 0


class MemoryJournal:
    """Implements `shoal.shape.journal.Journal`; gives the same visible state as `SqliteJournal`.

    With `inherit` it goes on with that one's record, whose driver need not know: from then on, that one is refused.
    """

    def __init__(self, inherit: MemoryJournal | None = None) -> None:
        self._record: _Record = inherit._record if inherit is not None else _Record()
        self._record.turn += 1
        self._turn = self._record.turn
        self._committed = self._record.items
        self.violations: list[str] = inherit.violations if inherit is not None else []
        self.commits = 0
        self._reports: list[tuple[int, Report]] = []
        self._attempts: list[tuple[int, Attempt]] = []
        self._events: list[RunEvent] = []
        self._dirty: set[int] = set()
        self.crash()

    def add(self, items: Sequence[Item]) -> None:
        """New items, waiting. One that is there already is left as it is."""
        for item in items:
            if item.seq in self._now:
                self.violations.append(f"item {item.seq} was added twice")
                continue
            self._now[item.seq] = ItemRecord(item, ItemState.WAITING)
            self._dirty.add(item.seq)

    def started(self, seq: int, attempt: int, node: str, at: float, log: LogSlice | None) -> None:
        """The item runs now."""
        old = self._open("started", seq, attempt, newer=True)
        if old is not None:
            item = _with(old.item, attempt, old.item.used)
            log = log._replace(end=None) if log else old.log
            self._set(seq, ItemRecord(item, ItemState.RUNNING, node, at, None, {}, old.error, log, old.kept))

    def progressed(
        self, seq: int, attempt: int, at: float, metrics: Mapping[str, Any], step: int | None
    ) -> None:
        """The item reported something. Dropped unless this attempt of it is running."""
        old = self._now.get(seq)
        if old is not None and old.state == ItemState.RUNNING and old.item.attempt == attempt:
            self._reports.append((seq, Report(attempt, step, at, metrics)))

    def requeued(
        self, seq: int, attempt: int, used: int, error: str | None, *, over: Attempt | None = None
    ) -> None:
        """An attempt is over without an end: the item waits again."""
        old = self._open("requeued", seq, attempt, newer=False)
        if old is not None:
            if used < old.item.used:
                self.violations.append(
                    f"item {seq} requeued with {used} attempts used, after {old.item.used}"
                )
            item = _with(old.item, attempt, used)
            error = old.error if error is None else error
            self._set(
                seq, ItemRecord(item, ItemState.WAITING, None, None, None, {}, error, old.log, old.kept)
            )
            if over is not None:
                self._attempts.append((seq, over))

    def noted(self, at: float, subject: str, what: str, why: str) -> None:
        """Something happened to the run as a whole."""
        self._events.append(RunEvent(at, subject, what, why))

    def ended(self, seq: int, attempt: int, used: int, node: str, started: float, outcome: Outcome) -> None:
        """The item has its final state. A second end, or one of an older attempt, changes nothing."""
        old = self._open("ended", seq, attempt, newer=outcome.state != ItemState.STOPPED)
        if old is not None:
            if outcome.state not in FINAL:
                self.violations.append(f"item {seq} ended in the state {outcome.state!r}")
            if outcome.state == ItemState.STOPPED and used != old.item.used:
                self.violations.append(f"item {seq} was stopped, which used an attempt")
            state, metrics, error, seconds, log, kept = outcome
            item = _with(old.item, attempt, used)
            log = old.log._replace(end=None) if log is None and old.log else log
            self._set(seq, ItemRecord(item, state, node, started, seconds, metrics, error, log, kept))

    def commit(self) -> None:
        """Make everything told so far survive a crash."""
        self.ensure_ours()
        self.commits += 1
        for seq in self._dirty:
            self._committed[seq] = self._now[seq]
        self._dirty.clear()
        self._record.reports += self._reports
        self._record.events += self._events
        for seq, over in self._attempts:
            self._record.attempts.setdefault(seq, []).append(over)
        for told in (self._reports, self._attempts, self._events):
            told.clear()

    def ensure_ours(self) -> None:
        """Raise `TakenOver` where another journal has inherited this one's record."""
        if self._turn != self._record.turn:
            raise TakenOver(f"Turn {self._record.turn} has the run by now; this one had {self._turn}.")

    def crash(self) -> list[Item]:
        """Lose what was not committed, and give what a new driver reads: all that has no end, in order."""
        for told in (self._reports, self._attempts, self._events):
            told.clear()
        self._dirty.clear()
        for seq, record in self._committed.items():
            if record.state in (ItemState.RUNNING, ItemState.STOPPED):
                if record.started is not None and record.node:
                    self._record.attempts.setdefault(seq, []).append(_over(record))
                self._committed[seq] = record._replace(state=ItemState.WAITING)
        self._now: dict[int, ItemRecord] = dict(self._committed)
        return self.waiting_items()

    def waiting_items(self) -> list[Item]:
        """What the next driver would go on with."""
        return [record.item for _, record in sorted(self._committed.items()) if record.state in UNFINISHED]

    def records(self) -> dict[int, ItemRecord]:
        """What is committed, by seq. Not a copy."""
        return self._committed

    def reports(self, seq: int) -> list[Report]:
        """What the item reported, as far as it is committed."""
        return [report for number, report in self._record.reports if number == seq]

    def attempts(self, seq: int) -> list[Attempt]:
        """The item's earlier attempts, as far as they are committed."""
        return self._record.attempts.get(seq, [])

    def events(self) -> list[RunEvent]:
        """What happened to the run as a whole, as far as it is committed."""
        return self._record.events

    def counts(self) -> dict[str, int]:
        """How many items are committed in each state."""
        counts = no_items()
        for record in self._committed.values():
            counts[record.state] += 1
        return counts

    def max_seq(self) -> int:
        """The highest seq that is committed, or 0."""
        return max(self._committed, default=0)

    def _open(self, call: str, seq: int, attempt: int, *, newer: bool) -> ItemRecord | None:
        """The record that the call may change, or None: then it is ignored. Notes what is wrong with it."""
        old = self._now.get(seq)
        if old is None:
            self.violations.append(f"item {seq} {call}, but was never added")
            return None
        if old.state in FINAL:
            again = " again" if call == "ended" else ""
            self.violations.append(f"item {seq} {call}{again} (attempt {attempt}), but was {old.state}")
            return None
        known = old.item.attempt
        if attempt < known or (newer and attempt == known and old.state == "waiting"):
            self.violations.append(f"item {seq} {call} with attempt {attempt}, but {known} is recorded")
        return None if attempt < known else old

    def _set(self, seq: int, record: ItemRecord) -> None:
        self._now[seq] = record
        self._dirty.add(seq)


def _over(record: ItemRecord) -> Attempt:
    """The attempt that a driver left, of an item that waits again."""
    item, node = record.item, record.node or ""
    how, error = record.state, record.error
    if how == ItemState.RUNNING:
        how, error = LostCause.DRIVER, None  # The error is that of the attempt before.
    return Attempt(item.attempt, item.used + 1, node, record.started, record.seconds, how, error, record.log)


def _with(item: Item, attempt: int, used: int) -> Item:
    """As `item._replace`, which takes four times as long."""
    return Item(item.seq, item.id, item.params, item.texts, item.content, item.occurrence, attempt, used)
