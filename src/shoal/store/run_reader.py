"""Reading a run: as a whole, its items, its result rows. Changes nothing; `run` adds what a driver may do."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from shoal.model import Item, ItemState, RunState
from shoal.model.record import Attempt, Kept, RunEvent
from shoal.store import items, schema
from shoal.store.driver import Driver, is_locked, owner
from shoal.store.home import run_folder, summarize, worked
from shoal.store.items import ItemRecord, Report, Row
from shoal.store.sqlite import in_our_words

T = TypeVar("T")

_NUMBERED = re.compile(r"[a-z]+(\d{1,12})(?:-.*)?")
"""What folders of items and checkpoints are called: after the item's id, and its content where that matters."""


class RunInfo(NamedTuple):
    """A run as a whole. `items` counts all its items by state; times are seconds since the epoch."""

    run: str
    kind: str
    name: str
    state: RunState
    created: float
    started: float | None
    ended: float | None
    turn: int
    """How many drivers it has had, at least; each has a higher one. 0 before the first."""
    seconds: float
    items: dict[str, int]
    total: int | None
    predicted_seconds: dict[str, float] | None
    objective: tuple[str, str] | None
    best: dict[str, Any] | None
    folder: str
    driver: dict[str, Any] | None
    """`pid`, `host` and `since` of the process that drives it now."""


class RunReader:
    """What can be asked of a run that is open, beside its driver and without it."""

    def __init__(self, home: str, run: str, connection: sqlite3.Connection) -> None:
        self.home, self.run = home, run
        self.folder = run_folder(home, run)
        self._path = os.path.join(self.folder, "run.db")
        self._connection = connection

    def state(self) -> RunState:
        """As recorded; `interrupted` when it should have a driver and has none."""
        with self._guard():
            return summarize(self._connection, self.folder).state

    def info(self, now: float | None = None) -> RunInfo:
        """Everything about the run as a whole. With `now`, `seconds` goes on while it runs."""
        keys = (
            "started",
            "began",
            "ended",
            "turn",
            "seconds",
            "total",
            "predicted_seconds",
            "objective",
            "best",
        )
        with self._guard():
            summary = summarize(self._connection, self.folder)
            known = schema.read(self._connection, (*keys, "objective", "best"))
            counts, best = self.counts(), known.get("best")
            seconds = summary.seconds
            if now is not None and summary.state is RunState.RUNNING:
                seconds = worked(known | {"last": now})
            objective = known.get("objective")
            locked = is_locked(os.path.join(self.folder, "lock"))
            return RunInfo(
                *summary[:5],
                started=known.get("started"),
                ended=known.get("ended"),
                turn=known["turn"],
                seconds=seconds,
                items=counts,
                total=known.get("total"),
                predicted_seconds=known.get("predicted_seconds"),
                objective=(objective[0], objective[1]) if objective else None,
                best=self._row(best[0]) if best else None,
                folder=self.folder,
                driver=owner(os.path.join(self.folder, "lock")) if locked else None,
            )

    @property
    def document(self) -> dict[str, Any]:
        """What `create` was given for resume."""
        with self._guard():
            found: dict[str, Any] = schema.read_one(self._connection, "document")
            return found

    @property
    def spec_text(self) -> str:
        with self._guard():
            return str(schema.read_one(self._connection, "spec"))

    def kept(self) -> Kept:
        """What its sessions left for people to look at."""
        with self._guard():
            kind = schema.read_one(self._connection, "kind")
            return Kept.read(kind, schema.read_notes(self._connection))

    def results_path(self) -> str:
        """Where the results are, or will be."""
        return self.kept().results or os.path.join(self.folder, "results.csv")

    def counts(self) -> dict[str, int]:
        """How many items are in each state; no item is read for it."""
        with self._guard():
            found: dict[str, int] = schema.read_one(self._connection, "counts")
            return found

    def turn(self) -> int:
        """The last turn that a driver took; 0 before the first."""
        with self._guard():
            return int(schema.read_one(self._connection, "turn"))

    def last_driver(self) -> tuple[Driver | None, float | None]:
        """Who drove it last, and when that was heard of; of a run of 0.1, nobody knows."""
        with self._guard():
            known = schema.read(self._connection, ("driver", "heard"))
            return Driver.read(known.get("driver") or {}), known.get("heard")

    def is_unfinished(self) -> bool:
        """Whether its driver, if it has one, has not said how it ended."""
        with self._guard():
            return RunState(schema.read_one(self._connection, "state")).is_active

    def max_seq(self) -> int:
        """The highest seq so far, or 0."""
        with self._guard():
            return items.max_seq(self._connection)

    def highest_number(self) -> int:
        """The highest seq that a driver may ever have given, or 0: folders can outlive the record of their items."""
        found = [self.max_seq()]
        for name in ("items", "checkpoints"):
            folder = os.path.join(self.folder, name)
            for entry in os.listdir(folder) if os.path.isdir(folder) else ():
                if (match := _NUMBERED.fullmatch(entry)) is not None:
                    found.append(int(match[1]))
        return max(found)

    def waiting_items(self) -> Iterator[Item]:
        """All that has no end: waiting, left running by a driver that is gone, or stopped."""
        return self._each(items.unfinished(self._connection))

    def failed_items(self) -> Iterator[Item]:
        return self._each(items.in_states(self._connection, (ItemState.FAILED,)))

    def known_contents(self) -> dict[str, int]:
        """How many items have each content, to know which rows of a table are new."""
        with self._guard():
            return items.known_contents(self._connection)

    def durations(self) -> Iterator[tuple[str, dict[str, Any], float, str]]:
        """(content, params, seconds, node) of each item that is done."""
        return self._each(items.durations(self._connection))

    def sum_of(self, *metrics: str) -> float:
        """The sum of these metrics over all items that are done; no item is read for it."""
        with self._guard():
            return items.sum_of(self._connection, metrics)

    def item(self, identity: str) -> ItemRecord:
        """The item of this id, or `NotFound`."""
        with self._guard():
            return items.find(self._connection, identity, self.run)

    def items(self, states: Sequence[str] | None = None, limit: int | None = None) -> Iterator[ItemRecord]:
        """Items with everything recorded of them, in the order of seq."""
        return self._each(items.records(self._connection, states, limit))

    def reports(self, seq: int) -> list[Report]:
        """What the item reported while it ran, in order."""
        with self._guard():
            return items.reports(self._connection, seq)

    def attempts(self, seq: int | None = None) -> dict[int, list[Attempt]]:
        """Attempts that were not the last, by the seq of their items; of one item, or of all."""
        with self._guard():
            return items.attempts(self._connection, seq)

    def events(self) -> list[RunEvent]:
        """What happened to the run as a whole, in order."""
        query = "SELECT at, subject, what, why FROM events ORDER BY number"
        with self._guard():
            return [RunEvent(*row) for row in self._connection.execute(query)]

    # Results

    def rows(self, states: Sequence[str] | None = None) -> Iterator[Row]:
        """Result rows in the order of the items. Each has every column."""
        return self._each(items.rows(self._connection, states))

    def row(self, identity: str) -> Row:
        """The result row of the item of this id, or `NotFound`."""
        with self._guard():
            record = items.find(self._connection, identity, self.run)
            return items.result_row(record, items.read_columns(self._connection))

    def plan(self) -> dict[str, Any] | None:
        """The plan that the run began with, as `shoal plan --json` prints it; None when it has none."""
        try:
            with open(os.path.join(self.folder, "plan.json"), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        return found

    def table(self) -> Any:
        """All rows as a pyarrow table, with the types of results.parquet."""
        from shoal.store.result_files import table

        with self._guard():
            return table(self._connection)

    def columns(self) -> list[str]:
        """The columns of result rows, in order; no item is read for it."""
        with self._guard():
            return items.read_columns(self._connection).names()

    def parameters(self) -> list[str]:
        """Those of the columns that hold parameters."""
        with self._guard():
            return list(items.read_columns(self._connection).params)

    def best(self, metric: str, goal: str, count: int = 1) -> list[Row]:
        """The best rows of items that are done, best first."""
        with self._guard():
            return items.best(self._connection, metric, goal, count)

    def _row(self, seq: int) -> Row | None:
        record = items.by_seq(self._connection, seq)
        return None if record is None else items.result_row(record, items.read_columns(self._connection))

    def _each(self, values: Iterator[T]) -> Iterator[T]:
        with self._guard():
            yield from values

    def _guard(self) -> AbstractContextManager[None]:
        return in_our_words(self._path, self.run)
