"""Collecting what an engine says, with patience but not for ever. Not an assertion library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from shoal.engine.base import Engine
from shoal.model import Event, ItemEnded, WorkerLost

E = TypeVar("E")

POLL_S = 0.25


def collect(engine: Engine, until: Callable[[list[Event]], object], patience_s: float) -> list[Event]:
    """All events from now until the condition on them holds. Fails, with what came, when patience ends."""
    events: list[Event] = []
    give_up = engine.now() + patience_s
    while not until(events):
        left = give_up - engine.now()
        if left <= 0:
            heard = "\n".join(f"  {event}" for event in events) or "  nothing"
            raise AssertionError(f"What was waited for did not come within {patience_s:g} s. Heard:\n{heard}")
        events.extend(engine.wait(min(left, POLL_S)))
    return events


def quiet(engine: Engine, seconds: float) -> list[Event]:
    """Everything that comes in that time; for checking that something does not."""
    events: list[Event] = []
    end = engine.now() + seconds
    while (left := end - engine.now()) > 0:
        events.extend(engine.wait(left))
    return events


def of(kind: type[E], events: Iterable[object]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def ended(*seqs: int) -> Callable[[Sequence[Event]], bool]:
    """A condition: each of these items has ended."""
    return lambda events: set(seqs) <= {event.seq for event in of(ItemEnded, events)}


def heard(kind: type[Event], count: int = 1) -> Callable[[Sequence[Event]], bool]:
    """A condition: so many events of that kind came."""
    return lambda events: len(of(kind, events)) >= count


def lost(*workers: int) -> Callable[[Sequence[Event]], bool]:
    """A condition: each of these workers is gone."""
    return lambda events: set(workers) <= {event.worker for event in of(WorkerLost, events)}
