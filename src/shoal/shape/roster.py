"""The workers that one factory makes: started, ready, busy, asked to go, lost, and where their time went.

How many there should be, and on which places, is for a shape to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.engine.base import Engine
from shoal.errors import EngineError, SpecError
from shoal.model import Factory, Item, ItemState, LogSlice, LostCause, Outcome, Place, WorkerLost, WorkerReady
from shoal.model.record import Attempt, WorkerUse
from shoal.shape.base import Policy
from shoal.shape.journal import Journal
from shoal.units import format_seconds

MISSING_MODULE = "ModuleNotFoundError: "
"""How the reason starts for a worker that misses a package. No other worker would fare better."""

START_FAILURES = 5
"""Workers in a row that fail to start before the run gives up."""

MANY = 8
"""Members with so many items, or more, are not kept in order: it would change with every end."""

START_S = 600.0
"""Seconds until a worker that is not ready (an import that hangs) is killed and counts as failed."""


class Flight:
    """An item that was handed to a worker and has not ended."""

    __slots__ = ("attempt", "cancelled", "heard", "item", "kill_at", "log", "started", "worker")

    def __init__(self, item: Item, worker: Member) -> None:
        self.item = item
        self.attempt = item.attempt
        self.worker = worker
        self.started: float | None = None
        self.heard: float | None = None
        """When it last reported."""
        self.log: LogSlice | None = None
        self.cancelled: tuple[ItemState, str] | None = None
        self.kill_at: float | None = None

    def overdue(self, policy: Policy, now: float) -> str | None:
        """Why it has to end by now; None while it has time."""
        if policy.timeout_s is None or self.started is None:
            return None
        since = self.heard if policy.timeout_since_report and self.heard is not None else self.started
        if now - since < policy.timeout_s:
            return None
        return f"timed out after {format_seconds(policy.timeout_s)}"

    def timed_out(self, outcome: Outcome) -> bool:
        """Whether that is how it ended: nothing else is cancelled as failed."""
        return outcome.state == ItemState.FAILED and self.cancelled == (outcome.state, outcome.error)

    def crashed(self, event: WorkerLost) -> Outcome:
        """What became of the item, which ran when its worker died."""
        started = self.started if self.started is not None else event.at
        state, error = self.cancelled or (ItemState.FAILED, f"crashed: {event.why}")
        return Outcome(state, {}, error, max(0.0, event.at - started), self.log)

    def requeue(self, journal: Journal, used: int, outcome: Outcome, how: str) -> None:
        """Have the item wait again, and this attempt kept as an earlier one."""
        node, counted = self.worker.node, self.item.used + 1
        _, _, error, seconds, log, _ = outcome
        over = Attempt(self.attempt, counted, node, self.started, seconds, how, error, log or self.log)
        journal.requeued(self.item.seq, self.attempt, used, error, over=over)

    def lose(self, journal: Journal, why: str, at: float, cause: LostCause = LostCause.NODE) -> None:
        """Nobody is to blame: the item waits again, and has used no attempt."""
        seconds = 0.0 if self.started is None else max(0.0, at - self.started)
        self.requeue(journal, self.item.used, Outcome(ItemState.STOPPED, {}, why, seconds), cause)


class Member:
    """One worker."""

    __slots__ = (
        "blocked",
        "current",
        "flights",
        "idle_since",
        "items",
        "leaving",
        "load",
        "node",
        "number",
        "place",
        "ready_at",
        "recalled",
        "spawned_at",
        "work_s",
    )

    def __init__(self, number: int, place: Place, now: float) -> None:
        self.number = number
        self.place = place
        self.node = place.host
        self.spawned_at = now
        self.ready_at: float | None = None
        self.flights: dict[int, Flight] = {}
        self.current: Flight | None = None
        self.leaving = False
        self.recalled = False
        self.blocked = False
        """Whether it waits for something before it may be given items."""
        self.load: int | None = None
        """How many items it has, `MANY` at most, where it may take more; None while it may not. The roster keeps it."""
        self.idle_since = now
        self.work_s = 0.0
        self.items = 0

    def ran_s(self, now: float) -> float:
        """How long its item has run; nothing, when none does."""
        return 0.0 if self.current is None or self.current.started is None else now - self.current.started

    def use(self, now: float) -> WorkerUse:
        ready = self.ready_at if self.ready_at is not None else now
        startup = max(0.0, ready - self.spawned_at)
        return WorkerUse(
            self.number, self.node, startup, self.work_s, max(0.0, now - ready - self.work_s), self.items
        )


class Roster:
    """Every member is changed here, so that counts are at hand: nothing that is done for each item goes through all."""

    def __init__(self, engine: Engine, factory: Factory) -> None:
        self._engine = engine
        self._factory = factory
        self._loads: dict[int, dict[int, Member]] = {}
        """Those that may be given items, by how many they have."""
        self._any_ready = False
        self.startup_s = 0.0
        """What the last start took."""
        self._kill_at: float | None = None
        self.start_failures = 0
        """Workers in a row that ended before they had started an item."""
        self.members: dict[int, Member] = {}
        self.past: list[WorkerUse] = []
        self.staying = 0
        """How many have not been asked to go."""
        self.available = 0
        """How many are ready, stay, and may be given items."""
        self.aloft = 0
        """How many items they have in all."""

    def spawn(self, place: Place) -> Member:
        member = Member(self._engine.spawn(self._factory, place), place, self._engine.now())
        self.members[member.number] = member
        self.staying += 1
        return member

    def is_first_still_starting(self, host: str) -> bool:
        """Where starts are slow, many at once on one machine only delay the first, which could begin."""
        if not self._engine.stagger_s:
            return False
        here = [member for member in self.members.values() if member.node == host]
        if not here or any(member.items for member in here):
            return False
        return self._engine.now() - min(member.spawned_at for member in here) < self._engine.stagger_s

    def ready(self, event: WorkerReady) -> None:
        member = self.members.get(event.worker)
        if member is not None and member.ready_at is None:
            member.ready_at = member.idle_since = event.at
            self.startup_s = event.startup_s
            self._any_ready = True
            self._sort(member)

    def lost(self, event: WorkerLost) -> Member | None:
        """Strike it off; raises when workers fail to start again and again."""
        member = self.members.pop(event.worker, None)
        if member is None:
            return None
        failed = event.cause == LostCause.START or (member.ready_at is None and event.cause != LostCause.NODE)
        failed = failed and not member.leaving
        self.leave(member)
        if member.current is not None and member.current.started is not None:
            member.work_s += event.at - member.current.started
            member.items += 1
        self.past.append(member.use(event.at))
        if failed:
            self._failed_to_start(member, event.why)
        return member

    def _failed_to_start(self, member: Member, why: str) -> None:
        self.start_failures += 1
        if why.startswith(MISSING_MODULE) and not self._any_ready:
            raise SpecError(
                f"No worker could start on {member.node}, and no item was tried: {why}",
                hint="Add the package that has it to requirements: of the workload, or install it there.",
            )
        if self.start_failures >= START_FAILURES:
            raise EngineError(f"No worker could start: {why}", hint="`shoal logs` has the whole story.")

    # What they hold.

    def took(self, member: Member, flights: list[Flight]) -> None:
        """These were handed to it."""
        for flight in flights:
            member.flights[flight.item.seq] = flight
        self.aloft += len(flights)
        self._sort(member)

    def landed(self, flight: Flight) -> None:
        """It no longer has this one."""
        member = flight.worker
        del member.flights[flight.item.seq]
        self.aloft -= 1
        if member.current is flight:
            member.current = None
        if len(member.flights) < MANY:
            self._sort(member)

    def by_load(self) -> Iterator[Member]:
        """Those that may be given items, those with the fewest first. May be changed while it is gone through."""
        for load in sorted(self._loads):
            members = tuple(self._loads.get(load, {}).values())
            yield from members if load < MANY else sorted(members, key=lambda member: len(member.flights))

    def _sort(self, member: Member) -> None:
        """Keep it where `by_load` finds it."""
        free = member.ready_at is not None and not (member.leaving or member.recalled or member.blocked)
        load = min(len(member.flights), MANY) if free else None
        if load == member.load:
            return
        if member.load is None:
            self.available += 1
        else:
            here = self._loads[member.load]
            del here[member.number]
            if not here:
                del self._loads[member.load]
        member.load = load
        if load is None:
            self.available -= 1
        else:
            self._loads.setdefault(load, {})[member.number] = member

    # Asking them to go.

    def leave(self, member: Member) -> None:
        """It goes when it has done what it holds, and gets no more."""
        if not member.leaving:
            member.leaving = True
            self.staying -= 1
            self._sort(member)

    def dismiss(self, member: Member) -> None:
        """Let a worker go when it has finished what it holds."""
        if not member.leaving:
            self.leave(member)
            self.recall(member)
            self.finished_chunk(member)

    def discard(self, member: Member) -> None:
        """End a worker at once; what it has not started goes to others."""
        self.leave(member)
        self._engine.kill(member.number)

    def recall(self, member: Member) -> None:
        """Take back what it has not started."""
        if member.flights and not member.recalled:
            member.recalled = True
            self._sort(member)
            self._engine.recall(member.number)

    def block(self, member: Member, blocked: bool) -> None:
        """Give it no more items, and take back what it has not started; or let it go on."""
        member.blocked = blocked
        if blocked:
            self.recall(member)
        self._sort(member)

    def returned(self, member: Member) -> None:
        """It gave back what it had not started."""
        member.recalled = False
        self._sort(member)

    def finished_chunk(self, member: Member) -> None:
        """End one that is to go and holds nothing more."""
        if member.leaving and not member.flights:
            self._engine.end(member.number)

    def look_at_start(self, member: Member, now: float, stopping: bool) -> None:
        """Kill a worker that takes too long to be ready; one that nothing is wanted of any more, at once."""
        if member.ready_at is None and (stopping or now - member.spawned_at > START_S):
            if stopping:
                self.leave(member)
            self._engine.kill(member.number)

    @property
    def all_let_go(self) -> bool:
        return self._kill_at is not None

    def let_all_go(self, grace_s: float) -> None:
        """Ask all to end; those that do not are killed after the grace. To be called until none is left."""
        now = self._engine.now()
        if self._kill_at is None:
            self._kill_at = now + grace_s
            for member in self.members.values():
                self.leave(member)
                if member.ready_at is None:  # Nobody waits for the start of a worker that has nothing to do.
                    self._engine.kill(member.number)
                else:
                    self._engine.end(member.number)
        elif now >= self._kill_at:
            self._kill_at = now + grace_s
            for number in self.members:
                self._engine.kill(number)

    def uses(self, now: float) -> list[WorkerUse]:
        return [*self.past, *(member.use(now) for member in self.members.values())]
