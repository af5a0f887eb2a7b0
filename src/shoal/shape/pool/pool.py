"""The loop that gets items done: hands out, hears, retries, times out, records. Kinds only give it items.

It owns its engine and its journal; everything it decides, it decides on the engine's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shoal.engine.base import Engine
from shoal.files.suspension import suspended_at
from shoal.model import (
    Event,
    Factory,
    Granted,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    LeaseRecalled,
    Need,
    Outcome,
    Refused,
    WorkerLost,
    WorkerReady,
)
from shoal.model.record import WorkerUse
from shoal.plan import chunking
from shoal.plan.durations import Durations
from shoal.shape.journal import Journal
from shoal.shape.pool.crew import Crew, Flight, Member
from shoal.shape.pool.picking import STUCK_S, at_hand, has_too_many, pick
from shoal.shape.pool.progress import Meter, look
from shoal.shape.pool.ready import ReadyQueue
from shoal.shape.pool.recording import Recording
from shoal.shape.pool.supply import PLENTY, Supply
from shoal.shape.pool.values import Ended, Guide, Policy, Progress, Source, Watcher

LOOK_S = 0.05
"""How often running items are looked at for timeouts, and watchers are told."""


class Pool:
    """One run of independent items.

    `resumed` are items that the journal has already; `source` gives new ones. `run` blocks until everything
    has ended or `stop` was called, which a watcher, a signal handler or another thread may do.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        factory: Factory,
        need: Need,
        source: Source,
        policy: Policy,
        *,
        resumed: Iterator[Item] | None = None,
        durations: Durations | None = None,
        watcher: Watcher | None = None,
        guide: Guide | None = None,
    ) -> None:
        now = engine.now()
        self._engine = engine
        self._journal = journal
        self._source = source
        self._policy = policy
        self._durations = durations if durations is not None else Durations()
        self._watcher = watcher
        self._guide = guide
        self._crew = Crew(engine, factory, need, policy.concurrent)
        self._ready = ReadyQueue(self._durations.expect)
        self._recording = Recording(journal, policy.commit_s, self._ready, watcher, now)
        self._supply = Supply(source, resumed, self._ready, self._recording)
        self._flights: dict[int, Flight] = {}
        self._meter = Meter(now)
        self._next_look = now
        self._next_order = 1
        self._stopping = False
        self.fenced = 0
        """Answers that came too late, and were dropped."""
        self.stopped_by_failures = False
        self._handlers: dict[type[Event], Callable[[Any], object]] = {
            ItemEnded: self._on_ended,
            ItemStarted: self._on_started,
            ItemProgressed: self._on_progressed,
            ItemsReturned: self._on_returned,
            WorkerLost: self._on_worker_lost,
            WorkerReady: self._crew.ready,
            Granted: self._crew.granted,
            Refused: self._crew.refused,
            LeaseRecalled: self._on_recalled,
        }

    # What its owner may ask.

    def run(self) -> None:
        """Until every item has ended, or until stopped; then all workers are gone and all is durable."""
        while self.step():
            pass

    def step(self, most_s: float = LOOK_S) -> bool:
        """One turn of the loop, waiting no longer than `most_s`; False when everything is over."""
        self._ready.wake(self._engine.now())
        if self._over():
            self._begin_to_wind_up()
            if not self._crew.members and not self._recording.dirty:
                self._tell_moment()
                return False
        else:
            self._feed_all()
        self._hear(self._engine.wait(min(most_s, self._patience())))
        self._look()
        return True

    def stop(self) -> None:
        """Hand out nothing more, ask what runs to end, keep the rest for a resume. Too late when all has ended."""
        if not self._crew.all_let_go:
            self._stopping = True

    def abandon(self, why: str) -> None:
        """The engine is gone, and with it what ran: that waits again, for another driver, and used no attempt."""
        for flight in self._flights.values():
            if flight.started is not None:
                flight.lose(self._journal, why, self._engine.now())
        self._flights.clear()

    @property
    def stopping(self) -> bool:
        return self._stopping

    def progress(self) -> Progress:
        now = self._engine.now()
        left = self._source.left() + self._recording.new
        seen = look(now, self._meter, self._ready, self._crew, self._durations, left)
        if self._guide is None:
            return seen
        return seen._replace(
            remaining_s=self._guide.remaining_s(), left=self._guide.left_to_do(), least_s=seen.remaining_s
        )

    def worker_uses(self) -> list[WorkerUse]:
        return self._crew.uses(self._engine.now())

    # Handing out.

    def _over(self) -> bool:
        if self._flights:
            return False
        if self._stopping:
            return True
        return self._supply.exhausted() and not self._ready and not self._ready.delayed

    def _hungry(self, workers: int, *, soon: bool = False) -> int:
        """How many more items so many workers could be given, now or `soon`, however many there are."""
        mean = self._durations.mean_s
        each = chunking.ahead(mean, PLENTY, workers, self._engine.latency_s, self._ahead())
        have = len(self._ready) + len(self._flights) + self._ready.delayed
        if soon:
            each += chunking.in_reserve(mean, self._policy.commit_s) if self._guide is None else 0
            have += self._recording.new
        return workers * each - have

    def _feed_all(self) -> None:
        if self._stopping or self._recording.failing:
            return
        members = at_hand(self._crew, self._guide)
        workers = max(1, len(members) if self._guide is not None else min(self._crew.limit(), PLENTY))
        self._supply.refill(self._hungry(workers, soon=True), workers)
        now = self._engine.now()
        self._reorder()
        useful = len(self._ready) + self._recording.new + len(self._flights)
        if self._guide is not None and useful and not self._supply.exhausted():
            useful = max(useful, self._crew.limit())  # Some may be idle, whose cores the others use.
        self._crew.grow(useful)
        if self._recording.new and self._hungry(len(members)) > 0:
            self._recording.commit_if_due(now, at_once=True)
        if not self._recording.failing:
            self._feed(members, now)
        if not self._ready and self._supply.exhausted():
            self._crew.let_idle_go(members, now)

    def _reorder(self) -> None:
        """Order what waits again when enough was learned since, in proportion to what it costs."""
        if self._durations.version >= self._next_order:
            self._ready.reorder()
            self._next_order = self._durations.version + max(1, len(self._ready) // 10)

    def _ahead(self) -> int:
        return 1 if self._guide is None else self._guide.ahead()

    def _feed(self, members: list[Member], now: float) -> None:
        sure = False
        for member in sorted(members, key=lambda member: len(member.flights)):
            if not self._ready:
                break
            latency_s = self._engine.latency_s
            picked = pick(self._ready, self._durations, member, len(members), latency_s, now, self._ahead())
            if picked:
                if not sure:
                    self._journal.ensure_ours()
                    sure = True
                self._engine.submit(member.number, [self._launch(item, member) for item in picked])
                suspended_at("hand-out")

    def _launch(self, item: Item, member: Member) -> Item:
        sent = item._replace(attempt=item.attempt + 1)
        flight = Flight(sent, member)
        self._flights[item.seq] = flight
        member.flights[item.seq] = flight
        return sent if self._guide is None else self._guide.sent(sent, member.number, member.node)

    # Hearing.

    def _patience(self) -> float:
        moments = (self._next_look, self._recording.due(), self._ready.next_wake())
        return max(0.0, min(moment for moment in moments if moment is not None) - self._engine.now())

    def _hear(self, events: Iterable[Event]) -> None:
        for event in events:
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)

    def _flight(self, event: ItemStarted | ItemProgressed | ItemEnded) -> Flight | None:
        """The flight an event speaks of; None, and counted, when it is stale."""
        flight = self._flights.get(event.seq)
        if flight is None or flight.attempt != event.attempt or flight.worker.number != event.worker:
            self.fenced += 1
            return None
        return flight

    def _on_started(self, event: ItemStarted) -> None:
        flight = self._flight(event)
        if flight is None or flight.started is not None:
            return
        member = flight.worker
        flight.started = event.at
        flight.log = event.log
        member.current = flight
        self._crew.start_failures = 0
        self._journal.started(event.seq, event.attempt, member.node, event.at, event.log)
        self._recording.dirty = True
        if self._stopping:
            self._cancel(flight, "stopped", "the run was stopped")

    def _on_progressed(self, event: ItemProgressed) -> None:
        flight = self._flight(event)
        if flight is None:
            return
        flight.heard = event.at
        if not event.metrics and event.step is None:
            return  # A sign of life, and nothing to record.
        self._journal.progressed(event.seq, event.attempt, event.at, event.metrics, event.step)
        self._recording.dirty = True
        why = self._source.progressed(flight.item, event.metrics, event.step)
        if why is not None and flight.cancelled is None:
            self._cancel(flight, "pruned", why)

    def _on_ended(self, event: ItemEnded) -> None:
        flight = self._flight(event)
        if flight is None:
            return
        member = flight.worker
        self._land(flight)
        member.idle_since = event.at
        member.work_s += event.outcome.seconds
        member.items += 1
        late = self._policy.timeouts_count_as_crashes and flight.timed_out(event.outcome)
        self._conclude(flight, event.outcome, crashed=late)
        if late:
            self._crew.discard(member)  # What hung may still hang, in a thread or in what it has loaded.
        else:
            self._crew.finished_chunk(member)

    def _land(self, flight: Flight) -> None:
        del self._flights[flight.item.seq]
        del flight.worker.flights[flight.item.seq]
        if flight.worker.current is flight:
            flight.worker.current = None

    def _on_returned(self, event: ItemsReturned) -> None:
        member = self._crew.members.get(event.worker)
        if member is None:
            self.fenced += 1
            return
        member.recalled = False
        for seq, attempt in event.items:
            flight = member.flights.get(seq)
            if flight is None or flight.attempt != attempt or flight.started is not None:
                self.fenced += 1
                continue
            self._land(flight)
            self._wait_again(flight)
        self._crew.finished_chunk(member)

    def _wait_again(self, flight: Flight) -> None:
        """Back among the waiting, as if it had not been handed out; its next attempt is a new one."""
        if not self._stopping:
            self._ready.push(flight.item)

    def _on_recalled(self, event: LeaseRecalled) -> None:
        member = self._crew.members.get(event.worker)
        if member is not None:
            self._crew.dismiss(member)

    def _on_worker_lost(self, event: WorkerLost) -> None:
        member = self._crew.lost(event)
        if member is None:
            return
        if self._guide is not None:
            self._guide.lost(event.worker, event.cause)
        for flight in list(member.flights.values()):
            self._land(flight)
            ran = flight.started is not None or event.running == (flight.item.seq, flight.attempt)
            if not ran:
                self._wait_again(flight)
            elif event.cause in ("node", "room") or (event.cause == "killed" and flight.cancelled is None):
                # Nobody is to blame, or it had only just followed the one that its worker was killed for.
                flight.lose(self._journal, event.why, event.at, event.cause)
                self._recording.dirty = True
                self._wait_again(flight)
            else:
                self._conclude(flight, flight.crashed(event), crashed=True, how=event.cause)

    # Ends.

    def _conclude(self, flight: Flight, outcome: Outcome, *, crashed: bool = False, how: str = "") -> None:
        item = flight.item
        used = item.used if outcome.state == "stopped" else item.used + 1
        self._recording.dirty = True
        if outcome.state == "failed" and used <= self._policy.allowed(crashed):
            self._retry(flight, used, outcome, how or outcome.state)
            return
        started = flight.started if flight.started is not None else self._engine.now()
        self._journal.ended(item.seq, flight.attempt, used, flight.worker.node, started, outcome)
        self._meter.ended(outcome.state)
        if outcome.state == "done":
            self._durations.tell(item.content, item.params, outcome.seconds)
        self._source.ended(item, outcome)
        self._recording.ended(Ended(item, flight.worker.node, started, outcome))
        failures = self._policy.stop_after
        if failures is not None and self._meter.counts["failed"] >= failures and not self._stopping:
            self.stopped_by_failures = True
            self.stop()

    def _retry(self, flight: Flight, used: int, outcome: Outcome, how: str) -> None:
        flight.requeue(self._journal, used, outcome, how)
        item = flight.item._replace(used=used)
        if not self._stopping:
            delay = min(30.0, self._policy.backoff_s * 2 ** (used - 1))
            self._ready.push_later(item, self._engine.now() + delay, avoid=flight.worker.number)

    def _cancel(self, flight: Flight, state: str, why: str) -> None:
        flight.cancelled = (state, why)
        flight.kill_at = self._engine.now() + self._policy.grace_s
        self._engine.cancel(flight.worker.number, flight.item.seq, flight.attempt, state, why)

    # Looking after.

    def _look(self) -> None:
        now = self._engine.now()
        self._recording.commit_if_due(now)
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        for member in list(self._crew.members.values()):
            self._look_at(member, now)
        self._tell_moment()

    def _look_at(self, member: Member, now: float) -> None:
        if self._stopping:
            self._crew.recall(member)
        self._crew.look_at_start(member, now, self._stopping)
        flight = member.current
        if flight is None or flight.started is None:
            return
        if flight.kill_at is not None and now >= flight.kill_at:
            flight.kill_at = now + self._policy.grace_s
            self._engine.kill(member.number)
        elif flight.cancelled is None and (why := flight.overdue(self._policy, now)) is not None:
            self._cancel(flight, "failed", why)
        elif flight.cancelled is None and self._stopping:
            self._cancel(flight, "stopped", "the run was stopped")
        last = not self._ready and self._supply.exhausted()
        if member.ran_s(now) > STUCK_S and has_too_many(member, self._crew, self._guide, last):
            self._crew.recall(member)

    def _begin_to_wind_up(self) -> None:
        """Everything has ended: make it durable, then let the workers go."""
        self._recording.commit_if_due(self._engine.now(), at_once=True)
        if not self._recording.dirty:
            self._crew.let_all_go(self._policy.grace_s)

    def _tell_moment(self) -> None:
        if self._watcher is not None:
            self._watcher.moment(self.progress())
