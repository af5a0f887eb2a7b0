"""The loop that gets items done: hands out, hears, retries, times out, records. Kinds only give it items.

It owns its engine and its journal; everything it decides, it decides on the engine's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shoal.engine.base import Engine
from shoal.model import (
    Event,
    FactsChanged,
    Granted,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    ItemState,
    LeaseRecalled,
    Need,
    NodeJoined,
    NodeLost,
    Refused,
    RunState,
    WorkerLost,
    WorkerReady,
)
from shoal.model.record import NODE, WorkerUse
from shoal.planner.durations import Durations
from shoal.shape.base import LOOK_S, Ended, Progress, Watcher, drive
from shoal.shape.items_in_flight import Again, Landing
from shoal.shape.journal import Journal
from shoal.shape.pool.crew import Crew
from shoal.shape.pool.progress import Meter, look
from shoal.shape.pool.queue import PLENTY, Supply
from shoal.shape.pool.values import Lane, Source
from shoal.shape.recording import Recording


class Pool:
    """One run of independent items: a `Shape`.

    Each lane has workers of its own; `lane_of` says to which of them an item goes. `resumed` are items that the
    journal has already; `source` gives new ones.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        lanes: Sequence[Lane],
        source: Source,
        *,
        lane_of: Callable[[Item], int] | None = None,
        resumed: Iterator[Item] | None = None,
        durations: Durations | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        now = engine.now()
        self._engine = engine
        self._journal = journal
        self._source = source
        self._durations = durations if durations is not None else Durations()
        self._watcher = watcher
        commit_s = min(lane.policy.commit_s for lane in lanes)
        self._recording = Recording(journal, commit_s, self._recorded, watcher, now)
        self._crew_of: dict[int, Crew] = {}
        """By the number of a worker."""
        self._crews = [
            Crew(engine, journal, self._recording, lane, self._durations, self._crew_of) for lane in lanes
        ]
        self._lane_of = lane_of
        self._supply = Supply(source, resumed, self._waits, self._take)
        self._meter = Meter(now)
        self._next_look = now
        self._next_order = 1
        self._stopping = False
        self._gave_up = False
        self._handlers: dict[type[Event], Callable[[Any], object]] = {
            ItemEnded: self._on_ended,
            ItemStarted: self._on_started,
            ItemProgressed: self._on_progressed,
            ItemsReturned: self._on_returned,
            WorkerLost: self._on_worker_lost,
            WorkerReady: self._on_ready,
            FactsChanged: self._on_ready,
            Granted: self._on_granted,
            Refused: self._on_refused,
            LeaseRecalled: self._on_recalled,
            NodeJoined: self._on_joined,
            NodeLost: self._on_node_lost,
        }

    # What its owner may ask.

    def run(self) -> None:
        """Until every item has ended, or until stopped; then all workers are gone and all is durable."""
        drive(self)

    def step(self, most_s: float = LOOK_S) -> bool:
        for crew in self._crews:
            crew.ready.wake(self._engine.now())
        if self._over():
            self._begin_to_wind_up()
            if not self._recording.dirty and all(crew.all_gone for crew in self._crews):
                self._tell_moment()
                return False
        else:
            self._feed_all()
        self._hear(self._engine.wait(min(most_s, self._patience())))
        self._look()
        return True

    def stop(self) -> None:
        if not all(crew.roster.all_let_go for crew in self._crews):
            self._stopping = True

    def abandon(self, why: str) -> None:
        for crew in self._crews:
            crew.flights.abandon(why)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def verdict(self) -> RunState | None:
        if self._gave_up:
            return RunState.FAILED
        return RunState.STOPPED if self._stopping else None

    def progress(self) -> Progress:
        now = self._engine.now()
        left = self._source.left() + self._recording.new
        seen = look(now, self._meter, self._crews, self._durations, left)
        guide = self._crews[0].guide
        if guide is None:
            return seen
        return seen._replace(
            remaining_s=guide.remaining_s(), left=guide.left_to_do(), least_s=seen.remaining_s, useful=None
        )

    def worker_uses(self) -> list[WorkerUse]:
        now = self._engine.now()
        return sorted(use for crew in self._crews for use in crew.roster.uses(now))

    @property
    def fenced(self) -> int:
        """Answers that came too late, and were dropped."""
        return sum(crew.flights.fenced for crew in self._crews)

    # Waiting items.

    def _crew(self, item: Item) -> Crew:
        return self._crews[0 if self._lane_of is None else self._lane_of(item)]

    def _waits(self, item: Item) -> None:
        """A durable item waits for a worker."""
        self._crew(item).ready.push(item)

    def _recorded(self, item: Item) -> None:
        crew = self._crew(item)
        crew.coming -= 1
        crew.ready.push(item)

    def _take(self, items: Sequence[Item]) -> None:
        """New items: they wait once they are recorded."""
        self._recording.add(items)
        for item in items:
            self._crew(item).coming += 1

    # Handing out.

    def _over(self) -> bool:
        if any(crew.roster.aloft for crew in self._crews):
            return False
        if self._stopping:
            return True
        waiting = any(len(crew.ready) or crew.ready.delayed for crew in self._crews)
        return not waiting and not self._recording.new and self._supply.exhausted()

    def _feed_all(self) -> None:
        if self._stopping or self._recording.failing:
            return
        now = self._engine.now()
        exhausted = self._supply.exhausted()
        for crew in self._crews:
            crew.gather()
        if not exhausted:
            self._refill()
        self._reorder()
        for crew in self._crews:
            self._grow(crew, exhausted)
        if self._recording.new and any(crew.hungry(crew.hands.total) > 0 for crew in self._crews):
            self._recording.commit_if_due(now, at_once=True)
        if self._recording.failing:
            return
        exhausted = exhausted and not self._recording.new
        for crew in self._crews:
            if crew.ready:
                crew.feed(now)
            if not crew.ready and (exhausted or self._others_wait(crew)):
                crew.let_idle_go(now)
        if len(self._crews) > 1:
            self._make_room()

    def _refill(self) -> None:
        """Take what workers will need soon, where not plenty waits."""
        room, hungry, workers = PLENTY, 0, 0
        for crew in self._crews:
            room -= len(crew.ready) + crew.coming
            soon = crew.workers_soon()
            workers += soon
            hungry += max(0, crew.hungry(soon, soon=True))
        if room > 0:
            self._supply.refill(room, hungry, workers)

    def _reorder(self) -> None:
        """Order what waits again when enough was learned since, in proportion to what it costs."""
        if self._durations.version >= self._next_order:
            waiting = 0
            for crew in self._crews:
                crew.ready.reorder()
                waiting += len(crew.ready)
            self._next_order = self._durations.version + max(1, waiting // 10)

    def _grow(self, crew: Crew, exhausted: bool) -> None:
        useful = len(crew.ready) + crew.coming + crew.roster.aloft
        if crew.guide is not None and useful and not exhausted:
            useful = max(useful, crew.limit())  # Some may be idle, whose cores the others use.
        crew.grow(useful)

    def _others_wait(self, crew: Crew) -> bool:
        return any(other.is_waiting for other in self._crews if other is not crew)

    def _make_room(self) -> None:
        """A lane with work gets at least one worker: another one that has several gives one up, one at a time."""
        if not any(crew.is_waiting and crew.ready for crew in self._crews):
            return
        largest = max(self._crews, key=lambda crew: crew.roster.staying)
        if largest.roster.staying > 1 and not any(crew.is_leaving for crew in self._crews):
            largest.roster.dismiss(next(reversed(largest.roster.members.values())))

    # Hearing.

    def _patience(self) -> float:
        moments = [self._next_look, self._recording.due(), *(crew.ready.next_wake() for crew in self._crews)]
        return max(0.0, min(moment for moment in moments if moment is not None) - self._engine.now())

    def _hear(self, events: Iterable[Event]) -> None:
        for event in events:
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)

    def _of(self, worker: int) -> Crew:
        """Whose worker an event speaks of; any crew fences what is of nobody."""
        return self._crew_of.get(worker, self._crews[0])

    def _on_ready(self, event: WorkerReady | FactsChanged) -> None:
        self._of(event.worker).heard(event)

    def _on_granted(self, event: Granted) -> None:
        if not any(crew.granted(event) for crew in self._crews):
            for place in event.places:
                self._engine.release(place)

    def _on_refused(self, event: Refused) -> None:
        for crew in self._crews:
            crew.refused(event)

    def _on_joined(self, event: NodeJoined) -> None:
        node = event.node
        room = Need(node.cpu, node.gpu, node.memory_bytes).words
        self._nodes_changed(event.at, node.host, "joined", f"it came while the run was going, with {room}")

    def _on_node_lost(self, event: NodeLost) -> None:
        self._nodes_changed(event.at, event.host, "lost", event.why)

    def _nodes_changed(self, at: float, host: str, what: str, why: str) -> None:
        self._journal.noted(at, NODE + host, what, why)
        self._recording.dirty = True
        for crew in self._crews:
            crew.nodes_changed()

    def _on_recalled(self, event: LeaseRecalled) -> None:
        self._of(event.worker).recalled(event)

    def _on_started(self, event: ItemStarted) -> None:
        flights = self._of(event.worker).flights
        flight = flights.started(event)
        if flight is not None and self._stopping:
            flights.cancel(flight, ItemState.STOPPED, "the run was stopped")

    def _on_progressed(self, event: ItemProgressed) -> None:
        flights = self._of(event.worker).flights
        flight = flights.progressed(event)
        if flight is None:
            return
        why = self._source.progressed(flight.item, event.metrics, event.step)
        if why is not None:
            flights.cancel(flight, ItemState.PRUNED, why)

    def _on_ended(self, event: ItemEnded) -> None:
        crew = self._of(event.worker)
        landing = crew.flights.ended(event)
        if type(landing) is Ended:
            self._conclude(crew, landing)
        elif landing is not None:
            self._land(crew, landing)

    def _on_returned(self, event: ItemsReturned) -> None:
        crew = self._of(event.worker)
        for landing in crew.flights.returned(event):
            self._land(crew, landing)

    def _on_worker_lost(self, event: WorkerLost) -> None:
        crew = self._crew_of.pop(event.worker, None)
        if crew is None:
            return
        if crew.guide is not None:
            crew.guide.lost(event.worker, event.cause)
        for landing in crew.lost(event):
            self._land(crew, landing)

    def _land(self, crew: Crew, landing: Landing) -> None:
        """An item is no longer with a worker."""
        if isinstance(landing, Ended):
            self._conclude(crew, landing)
        elif self._stopping:
            return  # It waits in the journal.
        elif isinstance(landing, Again):
            crew.ready.push_later(landing.item, landing.at, avoid=landing.avoid)
        else:
            crew.ready.push(landing.item)

    def _conclude(self, crew: Crew, ended: Ended) -> None:
        item, _, _, outcome = ended
        self._meter.ended(outcome.state)
        if outcome.state == ItemState.DONE:
            self._durations.tell(item.content, item.params, outcome.seconds)
        self._source.ended(item, outcome)
        self._recording.ended(ended)
        failures = crew.lane.policy.stop_after
        if failures is not None and self._meter.counts[ItemState.FAILED] >= failures and not self._stopping:
            self._gave_up = True
            self.stop()

    # Looking after.

    def _look(self) -> None:
        now = self._engine.now()
        self._recording.commit_if_due(now)
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        for crew in self._crews:
            crew.nodes_changed()
            nothing_left = not crew.ready and self._supply.exhausted() and not self._recording.new
            crew.look(now, stopping=self._stopping, nothing_left=nothing_left)
        self._tell_moment()

    def _begin_to_wind_up(self) -> None:
        """Everything has ended: make it durable, then let the workers go."""
        self._recording.commit_if_due(self._engine.now(), at_once=True)
        if not self._recording.dirty:
            for crew in self._crews:
                crew.let_all_go()

    def _tell_moment(self) -> None:
        if self._watcher is not None:
            self._watcher.moment(self.progress())
