"""The workers of a pool: how many, on which places, until when, and where their time went."""

from __future__ import annotations

from collections import deque

from shoal.engine.base import Engine
from shoal.errors import EngineError, SpecError
from shoal.model import (
    Factory,
    Granted,
    Item,
    ItemState,
    LogSlice,
    LostCause,
    Need,
    Outcome,
    Place,
    Refused,
    WorkerLost,
    WorkerReady,
)
from shoal.model.record import Attempt, WorkerUse
from shoal.shape.journal import Journal
from shoal.shape.pool.values import Policy
from shoal.units import format_seconds

MISSING_MODULE = "ModuleNotFoundError: "
"""How the reason starts for a worker that misses a package. No other worker would fare better."""

START_FAILURES = 5
"""Workers in a row that fail to start before the run gives up."""

START_S = 600.0
"""A worker that is not ready after so long (an import that hangs) is killed, and counts as one that failed."""

NODE_PATIENCE_S = 300.0
"""How long a run that lost all its nodes waits for one to come back."""

IDLE_S = 1.0
"""A worker with nothing to do this long is let go."""


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
        self.cancelled: tuple[str, str] | None = None
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
        return outcome.state == "failed" and self.cancelled == (outcome.state, outcome.error)

    def crashed(self, event: WorkerLost) -> Outcome:
        """What became of the item, which ran when its worker died."""
        started = self.started if self.started is not None else event.at
        state, error = self.cancelled or ("failed", f"crashed: {event.why}")
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
        "current",
        "flights",
        "idle_since",
        "items",
        "leaving",
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
        self.idle_since = now
        self.work_s = 0.0
        self.items = 0

    def ran_s(self, now: float) -> float:
        """How long its item has run; nothing, when none does."""
        return 0.0 if self.current is None or self.current.started is None else now - self.current.started

    def use(self, now: float) -> WorkerUse:
        ready = self.ready_at if self.ready_at is not None else now
        startup = ready - self.spawned_at
        return WorkerUse(
            self.number, self.node, startup, self.work_s, max(0.0, now - ready - self.work_s), self.items
        )


class Crew:
    """Keeps as many workers as there is use and room for."""

    def __init__(self, engine: Engine, factory: Factory, need: Need, concurrent: int | None) -> None:
        self._engine = engine
        self._factory = factory
        self._need = need
        self._concurrent = concurrent
        self._pending: deque[int] = deque()
        self._held: list[Place] = []
        """Places whose workers wait until the first worker of their node has done something."""
        self.start_failures = 0
        """Workers in a row that ended before they had started an item."""
        self._any_ready = False
        self._bare_since: float | None = None
        self._kill_at: float | None = None
        self.members: dict[int, Member] = {}
        self.past: list[WorkerUse] = []

    def limit(self) -> int:
        """Most workers there may be."""
        most = self._engine.capacity(self._need)
        return most if self._concurrent is None else min(most, self._concurrent)

    def grow(self, useful: int) -> None:
        """Ask for workers up to `useful`, within the limit; give up what is asked for in excess."""
        staying = sum(not member.leaving for member in self.members.values())
        while self._held and staying + len(self._held) > useful:
            self._engine.release(self._held.pop())
        self._spawn_held()
        staying = sum(not member.leaving for member in self.members.values()) + len(self._held)
        wanted = max(0, min(useful, self.limit()) - staying)
        if self._concurrent is not None:
            # One that leaves still runs its item, and counts against the limit.
            wanted = min(wanted, self._concurrent - len(self.members) - len(self._held))
        if self.limit() == 0:
            self._no_room(useful)
            return
        while len(self._pending) > max(0, wanted):
            self._engine.cancel_reservation(self._pending.pop())
        while len(self._pending) < wanted:
            reservation = self._engine.reserve([self._need], None)
            if not reservation.places:
                self._pending.append(reservation.id)
                continue
            wanted -= 1
            for place in reservation.places:
                self._spawn(place)

    def _no_room(self, useful: int) -> None:
        """No node that is alive could hold a worker: an error at first, but lost nodes may come back."""
        self.abandon_reservations()
        if self.members or not useful:
            self._bare_since = None
            return
        now = self._engine.now()
        if self._bare_since is None:
            self._bare_since = now
        never_fits = self._engine.nodes() and not self.past
        if never_fits or now - self._bare_since > NODE_PATIENCE_S:
            self._engine.reserve([self._need], None)  # Raises, with the reason for each node.

    def granted(self, event: Granted) -> None:
        if event.reservation not in self._pending:
            for place in event.places:
                self._engine.release(place)
            return
        self._pending.remove(event.reservation)
        for place in event.places:
            self._spawn(place)

    def refused(self, event: Refused) -> None:
        if event.reservation in self._pending:
            self._pending.remove(event.reservation)

    def _spawn(self, place: Place) -> None:
        if self._is_first_still_starting(place.host):
            self._held.append(place)
            return
        number = self._engine.spawn(self._factory, place)
        self.members[number] = Member(number, place, self._engine.now())

    def _spawn_held(self) -> None:
        held, self._held = self._held, []
        for place in held:
            self._spawn(place)

    def _is_first_still_starting(self, host: str) -> bool:
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
            self._any_ready = True

    def lost(self, event: WorkerLost) -> Member | None:
        """Strike it off; raises when workers fail to start again and again."""
        member = self.members.pop(event.worker, None)
        if member is None:
            return None
        if member.current is not None and member.current.started is not None:
            member.work_s += event.at - member.current.started
            member.items += 1
        self.past.append(member.use(event.at))
        failed = event.cause == "start" or (member.ready_at is None and event.cause != "node")
        if failed and not member.leaving:
            self.start_failures += 1
            if event.why.startswith(MISSING_MODULE) and not self._any_ready:
                raise SpecError(
                    f"No worker could start on {member.node}, and no item was tried: {event.why}",
                    hint="Add the package that has it to requirements: of the workload, or install it there.",
                )
            if self.start_failures >= START_FAILURES:
                raise EngineError(
                    f"No worker could start: {event.why}", hint="`shoal logs` has the whole story."
                )
        return member

    def dismiss(self, member: Member) -> None:
        """Let a worker go when it has finished what it holds."""
        if not member.leaving:
            member.leaving = True
            self._recall(member)
            if not member.flights:
                self._engine.end(member.number)

    def let_idle_go(self, members: list[Member], now: float) -> None:
        """Nothing more will come: those of them that have had nothing to do for a while are not needed."""
        for member in members:
            if not member.flights and member.ready_at is not None and now - member.idle_since > IDLE_S:
                self.dismiss(member)

    def look_at_start(self, member: Member, now: float, stopping: bool) -> None:
        """Kill a worker that takes too long to be ready; one that nothing is wanted of any more, at once."""
        if member.ready_at is None and (stopping or now - member.spawned_at > START_S):
            member.leaving = member.leaving or stopping
            self._engine.kill(member.number)

    def discard(self, member: Member) -> None:
        """End a worker at once; what it has not started goes to others."""
        member.leaving = True
        self._engine.kill(member.number)

    def finished_chunk(self, member: Member) -> None:
        if member.leaving and not member.flights:
            self._engine.end(member.number)

    def _recall(self, member: Member) -> None:
        if member.flights and not member.recalled:
            member.recalled = True
            self._engine.recall(member.number)

    def recall(self, member: Member) -> None:
        """Take back what it has not started."""
        self._recall(member)

    def abandon_reservations(self) -> None:
        while self._pending:
            self._engine.cancel_reservation(self._pending.pop())
        while self._held:
            self._engine.release(self._held.pop())

    @property
    def all_let_go(self) -> bool:
        return self._kill_at is not None

    def let_all_go(self, grace_s: float) -> None:
        """Ask all to end; those that do not are killed after the grace. To be called until none is left."""
        now = self._engine.now()
        self.abandon_reservations()
        if self._kill_at is None:
            self._kill_at = now + grace_s
            for member in self.members.values():
                member.leaving = True
                if member.ready_at is None:  # Nobody waits for the start of a worker that has nothing to do.
                    self._engine.kill(member.number)
                else:
                    self._engine.end(member.number)
        elif now >= self._kill_at:
            self._kill_at = now + grace_s
            for number in self.members:
                self._engine.kill(number)

    def uses(self, now: float) -> list[WorkerUse]:
        return sorted([*self.past, *(member.use(now) for member in self.members.values())])
