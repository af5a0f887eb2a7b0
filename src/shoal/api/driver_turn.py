"""The turn of this driver at its run: taken in the record and wherever its results go, and watched while it drives.

A turn in the record is a fence, as every commit looks at it. Elsewhere it is only a word left for others: who is about
to remove or publish something looks again, and what was done in between must be harmless (see `files.turns`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from shoal import namespaces
from shoal.cluster.base import Tell
from shoal.errors import FileError, NotFound, RunLocked, ShoalError, TakenOver
from shoal.files.turns import Turns
from shoal.store import RunStore
from shoal.store.driver import Driver, taken_over

UNSEEN = (FileError, NotFound, OSError)
"""What a place raises that cannot be seen, or is not there."""
LOOK_S = 3.0
"""How often the places outside of the record are looked at."""


class Place:
    """Somewhere outside of the record where turns are written down."""

    def __init__(self, turns: Turns, *, outside: str | None = None, optional: bool = False) -> None:
        self._turns = turns
        self._outside = outside
        """The network namespace that it is reached from, where that is another."""
        self.optional = optional
        """Whether a run goes on where it cannot be reached."""
        self._taken = False
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._turns.storage.url

    def highest(self) -> int:
        """The last turn here. `SpecError` where the storage cannot keep two drivers apart."""
        with namespaces.inside(self._outside):
            self._turns.storage.ensure_claims_hold()
            return self._turns.highest()

    def look(self, run: str, number: int, driver: Driver) -> None:
        """Take this turn here if that has not been done; `TakenOver` where somebody has it, or a later one."""
        with self._lock, namespaces.inside(self._outside):
            last = self._turns.highest()
            if last < number and not self._taken:
                self._turns.take(number, driver._asdict())
                last = number
            found = Driver.read(self._turns.driver(last)) if last != number or not self._taken else driver
            if last > number or found != driver:  # Our own word may have come though its answer was lost.
                raise taken_over(run, last, found)
            self._taken = last == number


class DriverTurn:
    """Keeps `files.turns.Turn`. Made by `take`; `close` has to follow."""

    def __init__(self, store: RunStore, number: int, driver: Driver, places: Sequence[Place]) -> None:
        self._store, self._number, self._driver, self._places = store, number, driver, places
        self._found: TakenOver | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def number(self) -> int:
        return self._number

    def ensure(self) -> None:
        self._store.ensure_turn()
        for place in self._places:
            place.look(self._store.run, self._number, self._driver)

    def watch(self) -> None:
        """Look at the places every few seconds, in a thread, from now on."""
        if self._places:
            self._thread = threading.Thread(target=self._watch, name="shoal-turn", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Raise what was found while watching: `TakenOver`, or nothing. Quick."""
        if self._found is not None:
            raise self._found

    def close(self) -> None:
        """Nobody looks any more; a look that hangs is not waited for. May be called twice."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_S):
            for place in self._places:
                try:
                    place.look(self._store.run, self._number, self._driver)
                except TakenOver as error:
                    self._found = error
                    return
                except (ShoalError, OSError):
                    continue  # What cannot be seen is unknown: the next look may tell.


def take(store: RunStore, places: Sequence[Place], driver: Driver, now: float, tell: Tell) -> DriverTurn:
    """The next turn: one more than the highest anywhere. In the record first, so that a full disk, or a driver that is
    suspended in the middle of writing, leaves nothing elsewhere. The run is `running` then.

    `RunLocked` where another driver takes it at the same time.
    """
    number = 1 + max([store.turn(), *(_highest(place, store.run, tell) for place in places)])
    store.take_turn(number, driver, now, begin=True)
    for place in places:
        try:
            place.look(store.run, number, driver)
        except TakenOver as error:
            raise RunLocked(
                f"Another driver took run {store.run!r} at the same moment.",
                hint=f"Look at it: shoal show {store.run}",
            ) from error
        except UNSEEN:
            if not place.optional:
                raise
    return DriverTurn(store, number, driver, places)


def _highest(place: Place, run: str, tell: Tell) -> int:
    try:
        return place.highest()
    except UNSEEN as error:
        if not place.optional:
            raise
        tell(
            f"Whether {run} is driven from elsewhere cannot be seen in {place.url}: {error} Work goes on; until it can"
            " be seen, nothing is published or removed."
        )
        return 0
