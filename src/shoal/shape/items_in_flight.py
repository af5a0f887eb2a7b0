"""What was handed out, and what became of it: fencing, timeouts, blame, attempts, backoff. The same for every shape.

An item in flight lands in one of three ways; what its shape does with it then is its own affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from shoal.engine.base import Engine
from shoal.model import (
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    ItemState,
    LostCause,
    Outcome,
    WorkerLost,
)
from shoal.shape.base import Ended, Policy
from shoal.shape.journal import Journal
from shoal.shape.recording import Recording
from shoal.shape.roster import Flight, Member, Roster

LONGEST_BACKOFF_S = 30.0

BLAMELESS = (LostCause.NODE, LostCause.ROOM)


class Again(NamedTuple):
    """It failed, and is tried again: not before `at`, and rather not on the worker `avoid`."""

    item: Item
    at: float
    avoid: int


class Back(NamedTuple):
    """It waits again, and used no attempt: it had not started, or nobody is to blame."""

    item: Item


Landing: TypeAlias = Ended | Again | Back
"""An item that has ended has its final state; that is not durable yet."""


class Flights:
    """The items that one roster's workers have, under one policy. Tells the journal; the shape commits."""

    def __init__(
        self, engine: Engine, journal: Journal, recording: Recording, roster: Roster, policy: Policy
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._recording = recording
        self._roster = roster
        self._policy = policy
        self.fenced = 0
        """Answers that came too late, and were dropped."""

    def launch(self, items: list[Item], member: Member) -> list[Item]:
        """Each item as the next attempt at it; from now on its worker answers for it."""
        sent = [item._replace(attempt=item.attempt + 1) for item in items]
        self._roster.took(member, [Flight(item, member) for item in sent])
        return sent

    # Hearing.

    def _find(self, event: ItemStarted | ItemProgressed | ItemEnded) -> Flight | None:
        """The flight an event speaks of; None, and counted, when it is stale."""
        member = self._roster.members.get(event.worker)
        flight = None if member is None else member.flights.get(event.seq)
        if flight is None or flight.attempt != event.attempt:
            self.fenced += 1
            return None
        return flight

    def started(self, event: ItemStarted) -> Flight | None:
        """The flight that began; None when it had already, or the event is stale."""
        flight = self._find(event)
        if flight is None or flight.started is not None:
            return None
        member = flight.worker
        flight.started = event.at
        flight.log = event.log
        member.current = flight
        self._roster.start_failures = 0
        self._journal.started(event.seq, event.attempt, member.node, event.at, event.log)
        self._recording.dirty = True
        return flight

    def progressed(self, event: ItemProgressed) -> Flight | None:
        """The flight that reported something; None for a mere sign of life, or a stale event."""
        flight = self._find(event)
        if flight is None:
            return None
        flight.heard = event.at
        if not event.metrics and event.step is None:
            return None
        self._journal.progressed(event.seq, event.attempt, event.at, event.metrics, event.step)
        self._recording.dirty = True
        return flight

    def ended(self, event: ItemEnded) -> Landing | None:
        flight = self._find(event)
        if flight is None:
            return None
        member, outcome = flight.worker, event.outcome
        self._roster.landed(flight)
        member.idle_since = event.at
        member.work_s += outcome.seconds
        member.items += 1
        late = self._policy.timeouts_count_as_crashes and flight.timed_out(outcome)
        landing = self._conclude(flight, outcome, crashed=late)
        if late:
            self._roster.discard(member)  # What hung may still hang, in a thread or in what it has loaded.
        elif member.leaving:
            self._roster.finished_chunk(member)
        return landing

    def returned(self, event: ItemsReturned) -> Iterator[Landing]:
        member = self._roster.members.get(event.worker)
        if member is None:
            self.fenced += 1
            return
        self._roster.returned(member)
        for seq, attempt in event.items:
            flight = member.flights.get(seq)
            if flight is None or flight.attempt != attempt or flight.started is not None:
                self.fenced += 1
                continue
            self._roster.landed(flight)
            yield Back(flight.item)
        self._roster.finished_chunk(member)

    def lost(self, event: WorkerLost) -> Iterator[Landing]:
        """What the worker had, once the roster has struck it off; nothing for one that is not known."""
        member = self._roster.lost(event)
        for flight in list(member.flights.values()) if member is not None else ():
            self._roster.landed(flight)
            ran = flight.started is not None or event.running == (flight.item.seq, flight.attempt)
            if not ran:
                yield Back(flight.item)
            elif event.cause in BLAMELESS or (event.cause == LostCause.KILLED and flight.cancelled is None):
                # Nobody is to blame, or it had only just followed the one that its worker was killed for.
                flight.lose(self._journal, event.why, event.at, event.cause)
                self._recording.dirty = True
                yield Back(flight.item)
            else:
                yield self._conclude(flight, flight.crashed(event), crashed=True, how=event.cause)

    # Ends.

    def _conclude(self, flight: Flight, outcome: Outcome, *, crashed: bool, how: str = "") -> Landing:
        item, policy = flight.item, self._policy
        used = item.used if outcome.state == ItemState.STOPPED else item.used + 1
        self._recording.dirty = True
        if outcome.state == ItemState.FAILED and used <= policy.allowed(crashed):
            flight.requeue(self._journal, used, outcome, how or outcome.state)
            delay = min(LONGEST_BACKOFF_S, policy.backoff_s * 2 ** (used - 1))
            return Again(item._replace(used=used), self._engine.now() + delay, flight.worker.number)
        started = flight.started if flight.started is not None else self._engine.now()
        self._journal.ended(item.seq, flight.attempt, used, flight.worker.node, started, outcome)
        return Ended(item, flight.worker.node, started, outcome)

    def abandon(self, why: str) -> None:
        """The engine is gone: what ran waits again, and used no attempt."""
        for member in self._roster.members.values():
            for flight in list(member.flights.values()):
                if flight.started is not None:
                    flight.lose(self._journal, why, self._engine.now())
                self._roster.landed(flight)

    # Asking them to end.

    def cancel(self, flight: Flight, state: ItemState, why: str) -> None:
        """Ask it to end so; its worker is killed when it has not after the grace."""
        if flight.cancelled is None:
            flight.cancelled = (state, why)
            flight.kill_at = self._engine.now() + self._policy.grace_s
            self._engine.cancel(flight.worker.number, flight.item.seq, flight.attempt, state, why)

    def look(self, member: Member, now: float, stopping: bool) -> None:
        """End what runs too long, or is not wanted any more; kill the worker of what was asked and does not end."""
        flight = member.current
        if flight is None or flight.started is None:
            return
        if flight.kill_at is not None and now >= flight.kill_at:
            flight.kill_at = now + self._policy.grace_s
            self._engine.kill(member.number)
        elif flight.cancelled is None and (why := flight.overdue(self._policy, now)) is not None:
            self.cancel(flight, ItemState.FAILED, why)
        elif stopping:
            self.cancel(flight, ItemState.STOPPED, "the run was stopped")
