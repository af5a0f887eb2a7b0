"""The workers of one lane, and what waits for them: how many there should be, on which places, until when."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from shoal.engine.base import Engine
from shoal.files.turns import suspended_at
from shoal.model import (
    FactsChanged,
    Granted,
    Item,
    LeaseRecalled,
    LostCause,
    Place,
    Refused,
    WorkerLost,
    WorkerReady,
)
from shoal.model.record import WORKER
from shoal.planner.durations import Durations
from shoal.shape.items_in_flight import Flights, Landing
from shoal.shape.journal import Journal
from shoal.shape.pool.lane_places import Ceiling, Companions
from shoal.shape.pool.queue import (
    PLENTY,
    STUCK_S,
    Hands,
    ReadyQueue,
    at_hand,
    in_reserve,
    items_ahead,
    least_ahead,
    pick,
)
from shoal.shape.pool.values import Lane
from shoal.shape.recording import Recording
from shoal.shape.roster import Member, Roster
from shoal.words import sentence

NODE_PATIENCE_S = 300.0
"""How long a run that lost all its nodes waits for one to come back."""

IDLE_S = 1.0
"""A worker with nothing to do this long is let go."""


class Crew:
    """Keeps as many workers as there is use and room for."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        recording: Recording,
        lane: Lane,
        durations: Durations,
        crews: dict[int, Crew],
    ) -> None:
        """`crews` are those of all workers by their number; a crew adds itself for each that it starts."""
        self._engine = engine
        self._journal = journal
        self._recording = recording
        self._durations = durations
        self._crews = crews
        self.lane = lane
        self.guide = lane.guide
        self.ready = ReadyQueue(durations.expect)
        self.roster = Roster(engine, lane.factory)
        self.flights = Flights(engine, journal, recording, self.roster, lane.policy)
        self.hands = Hands(0, ())
        self.coming = 0
        """Items for it that are not durable yet."""
        self._ceiling = Ceiling(engine, lane.need, lane.policy.ceiling)
        self._companions: Companions | None = None
        if lane.companion is not None:
            ceiling = lane.policy.ceiling
            self._companions = Companions(engine, lane.companion, lane.need, self.roster, ceiling)
        self._pending: dict[int, str | None] = {}
        """Reservations that wait, and the host that each is for, where it has to be one."""
        self._short_s: float | None = None
        """What the shortest item was expected to take when places were asked for; None where nobody knew."""
        self._lasts_s: float | None = None
        """That, and the start of a worker."""
        self._held: list[Place] = []
        """Places that are lent, and those whose workers wait until the first of their node has done something."""
        self._owed: set[int] = set()
        """Workers that others are owed, and that have a companion and not done anything yet."""
        self._losses: deque[str] = deque()
        """Why workers were lost that no other one was started for yet."""
        self._bare_since: float | None = None
        self._capacity: int | None = None

    # What there is to do.

    def ahead(self) -> int:
        """How many items a worker has at least, where there are enough."""
        return 1 if self.guide is None else self.guide.ahead()

    def hungry(self, workers: int, *, soon: bool = False) -> int:
        """How many more items so many workers could be given, now or `soon`, however many there are."""
        mean = self._durations.mean_s
        each = items_ahead(mean, PLENTY, workers, self._engine.latency_s, self.ahead())
        have = len(self.ready) + self.roster.aloft + self.ready.delayed
        if soon:
            each += in_reserve(mean, self.lane.policy.commit_s) if self.guide is None else 0
            have += self.coming
        return workers * each - have

    def gather(self) -> None:
        """See which of its workers may be given items."""
        self.hands = at_hand(self.roster, self.guide)

    def workers_soon(self) -> int:
        """How many workers may soon want items: those that a guide lets work, or all for which there is room."""
        return max(1, self.hands.total if self.guide is not None else min(self.limit(), PLENTY))

    def feed(self, now: float) -> None:
        """Hand out what waits. Raises `TakenOver` where another driver has the run by now."""
        sure, hands = False, self.hands
        ready, mean, latency_s, least = (
            self.ready,
            self._durations.mean_s,
            self._engine.latency_s,
            self.ahead(),
        )
        enough = max(least, least_ahead(mean, latency_s))
        for member in hands.members:
            want = items_ahead(mean, len(ready), hands.total, latency_s, least)
            have = len(member.flights)
            if not ready or have > want // 2:
                break  # The others have as much.
            if have >= least and member.ran_s(now) > STUCK_S:
                continue
            picked = pick(ready, self._durations, member, hands.total, want, enough, now)
            if picked:
                if not sure:
                    self._journal.ensure_ours()
                    sure = True
                self._engine.submit(member.number, self._launch(picked, member))
                suspended_at("hand-out")

    def _launch(self, items: list[Item], member: Member) -> list[Item]:
        sent, guide, companions = self.flights.launch(items, member), self.guide, self._companions
        if guide is not None:
            sent = [guide.sent(item, member.number, member.node) for item in sent]
        return sent if companions is None else [companions.sent(item, member.number) for item in sent]

    def look(self, now: float, *, stopping: bool, nothing_left: bool) -> None:
        """See to workers that do not start, to items that run too long, and to what waits behind those."""
        for companion in () if self._companions is None else list(self._companions.roster.members.values()):
            self.roster.look_at_start(companion, now, stopping)
        for member in list(self.roster.members.values()):
            if stopping:
                self.roster.recall(member)
            self.roster.look_at_start(member, now, stopping)
            self.flights.look(member, now, stopping)
            if member.ran_s(now) > STUCK_S and self._has_too_many(member, nothing_left):
                self.roster.recall(member)

    def _has_too_many(self, member: Member, nothing_left: bool) -> bool:
        """Whether a worker whose item runs long should give back what waits behind it."""
        least = self.ahead()
        if least > 1 and nothing_left:
            others = (each for each in at_hand(self.roster, self.guide).members if each is not member)
            least = 1 if any(not each.flights for each in others) else least  # Others could do it now.
        return len(member.flights) > least

    # How many workers.

    def limit(self) -> int:
        """Most workers there may be."""
        if self._capacity is None:
            self._capacity = (self._companions or self._ceiling).capacity()
        concurrent = self.lane.policy.concurrent
        return self._capacity if concurrent is None else min(self._capacity, concurrent)

    def nodes_changed(self) -> None:
        """There may be other nodes than before."""
        self._capacity = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a place, and has no worker."""
        return bool(self._pending) and not self.roster.members

    @property
    def is_leaving(self) -> bool:
        """Whether one of its workers has been asked to go, and is not gone."""
        return len(self.roster.members) > self.roster.staying

    def grow(self, useful: int) -> None:
        """Ask for workers up to `useful`, within the limit; give up what is asked for in excess."""
        roster = self.roster
        if self._owed:
            self._let_owed_go()
        while self._held and roster.staying + len(self._held) > useful:
            self._engine.release(self._held.pop())
        if self._held:
            held, self._held = self._held, []
            self._spawn(held)
        wanted = max(0, min(useful, self.limit()) - roster.staying - len(self._held))
        if self.lane.policy.concurrent is not None:
            # One that leaves still runs its item, and counts against the limit.
            wanted = min(wanted, self.lane.policy.concurrent - len(roster.members) - len(self._held))
        if self.limit() == 0:
            self._no_room(useful)
            return
        if wanted <= 0 and not self._pending:
            return
        if self._pending and not self._companions and not _alike(self.ready.shortest_s(), self._short_s):
            self._abandon_pending()
        room = self._companions or self._ceiling
        self._abandon_pending(room.most_asks(wanted))
        while len(self._pending) < room.most_asks(wanted):
            needs = room.next_needs(self._hosts(), self._pending.values())
            if needs is None:
                break
            if not self._pending:
                self._short_s = short_s = None if self._companions else self.ready.shortest_s()
                self._lasts_s = None if short_s is None else self.roster.startup_s + short_s
            reservation = self._engine.reserve(needs, None, lasts_s=self._lasts_s)
            if not reservation.places:
                self._pending[reservation.id] = needs[0].node
                continue
            wanted -= 1
            self._spawn(reservation.places)

    def _hosts(self) -> Iterator[str | None]:
        """Where workers are, or will be."""
        yield from (member.node for member in self.roster.members.values())
        yield from (place.host for place in self._held)
        yield from self._pending.values()

    def _no_room(self, useful: int) -> None:
        """No node that is alive could hold a worker: an error at first, but lost nodes may come back."""
        self.abandon_reservations()
        if self.roster.members or not useful:
            self._bare_since = None
            return
        now = self._engine.now()
        if self._bare_since is None:
            self._bare_since = now
        never_fits = self._engine.nodes() and not self.roster.past
        if never_fits or now - self._bare_since > NODE_PATIENCE_S:
            if self._companions is not None:
                self._companions.refuse()
            self._engine.reserve([self.lane.need], None)  # Raises, with the reason for each node.

    def granted(self, event: Granted) -> bool:
        """Start workers; False when it did not ask for these places."""
        if event.reservation not in self._pending:
            return False
        del self._pending[event.reservation]
        if event.places[0].lent and self._companions is None:
            self._held += event.places  # Until items may be handed out.
        else:
            self._spawn(event.places)
        return True

    def refused(self, event: Refused) -> None:
        self._pending.pop(event.reservation, None)

    def _spawn(self, places: Sequence[Place]) -> None:
        if self._companions is not None:
            self._spawn_user(self._companions, places)
            return
        for place in places:
            if place.lent:
                self._borrow(place)
            elif self.roster.is_first_still_starting(place.host):
                self._held.append(place)
            else:
                self._start(place)

    def _start(self, place: Place) -> Member:
        member = self.roster.spawn(place)
        self._crews[member.number] = self
        if self._losses:
            self._note(member, self._losses.popleft())
        return member

    def _spawn_user(self, companions: Companions, places: Sequence[Place]) -> None:
        companion = companions.begin(places)
        if companion is not None:
            self._crews[companion.number] = self
            user = self._start(places[-1])
            companions.serve(companion.number, user)
            if places[-1].lent:
                self._owed.add(user.number)

    def _borrow(self, place: Place) -> None:
        """Use a place that is lent for one item that is short enough; then the worker goes."""
        item = self.ready.pop_within(self._short_s or 0.0)
        if item is None:
            self._short_s = self._lasts_s = None  # So that it is asked for anew.
            self._engine.release(place)
            return
        self._journal.ensure_ours()
        member = self._start(place)
        self._engine.submit(member.number, self._launch([item], member))
        self.roster.leave(member)
        self._abandon_pending()  # Having had its turn, it waits anew.

    def heard(self, event: WorkerReady | FactsChanged) -> None:
        """A worker is ready, or says other things of itself than before."""
        companions = self._companions
        if companions is not None and event.worker in companions.roster.members:
            companions.heard(event)
        elif isinstance(event, WorkerReady):
            self.roster.ready(event)

    def lost(self, event: WorkerLost) -> Iterator[Landing]:
        """A worker is gone: what it had."""
        companions = self._companions
        if companions is not None and event.worker in companions.roster.members:
            if (another := companions.lost(event)) is not None:
                self._crews[another.number] = self
                self._note(another, _loss(event, another.node))
            return iter(())
        member = self.roster.members.get(event.worker)
        if companions is not None and member is not None:
            self._owed.discard(event.worker)
            if companions.left(event.worker):
                self._abandon_pending()  # What waits for a place beside that companion.
        if member is not None and not member.leaving and event.cause not in (LostCause.ENDED, LostCause.NODE):
            self._losses.append(_loss(event, member.node))
        return self.flights.lost(event)

    def _note(self, member: Member, why: str) -> None:
        subject = f"{WORKER}{member.number} on {member.node}"
        self._journal.noted(self._engine.now(), subject, "restarted", why)
        self._recording.dirty = True

    def recalled(self, event: LeaseRecalled) -> None:
        """Others are owed the place of a worker: it goes when it has finished its item."""
        members, companions = self.roster.members, self._companions
        if companions is None:
            leaving = [event.worker]
        else:
            leaving = companions.recalled(event.worker)
            # A pair takes long to start: each is good for some items, or two runs would only take it from each other.
            self._owed.update(number for number in leaving if number in members and not members[number].items)
            leaving = [number for number in leaving if number not in self._owed]
        for member in (members[number] for number in leaving if number in members):
            self.roster.dismiss(member)
            flight = member.current
            if flight is not None and (expected := self._durations.expect(flight.item)) is not None:
                self._engine.expect_release(member.place, max(0.0, expected - member.ran_s(event.at)))

    def _let_owed_go(self) -> None:
        """Once they have something to do, or where there is nothing."""
        for member in [self.roster.members[number] for number in self._owed]:
            if member.flights:
                self.roster.leave(member)
            elif not self.ready:
                self.roster.dismiss(member)
        self._owed = {number for number in self._owed if not self.roster.members[number].leaving}

    def let_idle_go(self, now: float) -> None:
        """Nothing more will come: who has had nothing to do for a while is not needed."""
        for member in at_hand(self.roster, self.guide).members:
            if member.flights:
                return  # Idle ones come first.
            if now - member.idle_since > IDLE_S:
                self.roster.dismiss(member)

    def _abandon_pending(self, most: int = 0) -> None:
        while len(self._pending) > most:
            self._engine.cancel_reservation(self._pending.popitem()[0])

    def abandon_reservations(self) -> None:
        self._abandon_pending()
        while self._held:
            self._engine.release(self._held.pop())

    def let_all_go(self) -> None:
        """To be called until no worker is left."""
        self.abandon_reservations()
        self.roster.let_all_go(self.lane.policy.grace_s)
        if self._companions is not None and not self.roster.members:
            self._companions.roster.let_all_go(self.lane.policy.grace_s)

    @property
    def all_gone(self) -> bool:
        """Whether it has no worker, nor a companion of one."""
        return not (self.roster.members or (self._companions and self._companions.roster.members))


def _loss(event: WorkerLost, node: str) -> str:
    return f"{WORKER}{event.worker} on {node} was lost: {sentence(event.why)}"


def _alike(seconds: float | None, other: float | None) -> bool:
    """Whether one is no more than twice the other: expectations change with every end."""
    if seconds is None or other is None:
        return seconds is other
    return seconds <= 2 * other and other <= 2 * seconds
