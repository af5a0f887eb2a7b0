"""One run's folder: its lock, its record, its files. The only way to a run for the layers above.

Opened to write by its one driver, and to read by anyone, at any time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from shoal.errors import NotFound, RunLocked, SpecError, TakenOver, nearest
from shoal.files import make_closed, write_text
from shoal.model import Item, Plan, RunState
from shoal.model.record import Kept
from shoal.store import schema
from shoal.store.driver import UNDRIVEN, Driver, RunLock, locked
from shoal.store.home import (
    RunSummary,
    cannot_make,
    make_home,
    record,
    run_folder,
    run_ids,
    summarize,
    worked,
)
from shoal.store.items import no_items
from shoal.store.journal import SqliteJournal, count_again, ensure_turn, keep_attempts
from shoal.store.run_reader import RunReader
from shoal.store.schema import VERSION, known_version, make_tables, migrate, opened_to_read, plain
from shoal.store.sqlite import BUSY_MS, build, connect, in_our_words, store_error, transaction

_NAME_TRIES = 200


class RunStore(RunReader):
    """A run that is open. Close it, or use it in a `with`. One thread at a time."""

    def __init__(self, home: str, run: str, connection: sqlite3.Connection, lock: RunLock | None) -> None:
        super().__init__(home, run, connection)
        self._lock = lock
        self._turn: int | None = None
        """The one that this process took."""
        self._journal: SqliteJournal | None = None

    @classmethod
    def create(
        cls,
        home: str,
        *,
        name: str,
        kind: str,
        spec_text: str,
        document: Mapping[str, Any],
        token: Callable[[], str],
        now: float,
        objective: tuple[str, str] | None = None,
        plan: Plan | None = None,
    ) -> RunStore:
        """A new run, queued, with its lock taken. `token` gives four hexadecimal digits, others each time.

        `document` is JSON: all that resume needs. `objective` is a metric and `max` or `min`.
        """
        make_home(home)
        run, folder = _new_folder(home, name, token)
        lock: RunLock | None = None
        known = {"run": run, "kind": kind, "name": name, "state": RunState.QUEUED, "created": now, "turn": 0}
        known |= {"seconds": 0.0, "counts": no_items(), "objective": objective}
        known |= {"document": document, "spec": spec_text} | _of_plan(plan)
        path = os.path.join(folder, "run.db")
        try:
            lock = RunLock.take(os.path.join(folder, "lock"), run=run, now=now)
            with open(os.path.join(folder, "spec.yaml"), "w", encoding="utf-8", errors="replace") as file:
                file.write(spec_text)
            _write_plan(folder, plan)
            build(path, VERSION, lambda connection: _fill(connection, known))
            store = cls(home, run, connect(path), lock)
        except BaseException as error:
            if lock is not None:
                lock.release()
            _remove_folder(folder)
            if isinstance(error, (OSError, sqlite3.Error)):
                raise cannot_make(folder, error) from error
            raise
        record(home, RunSummary(run, kind, name, RunState.QUEUED, now, 0.0, folder))
        return store

    @classmethod
    def open(cls, home: str, run: str, *, write: bool, now: float = 0.0, take_over: bool = False) -> RunStore:
        """Open an existing run by its id. To write: take its lock, or raise `RunLocked`; with `take_over`, in spite of
        who has it. Nothing is changed before `take_turn`, but tables of an older Shoal are brought to the present ones.
        """
        folder = run_folder(home, run)
        path = os.path.join(folder, "run.db")
        if not os.path.isfile(path) or os.path.basename(run) != run:
            raise NotFound(f"There is no run {run!r} in {home}.", hint=nearest(run, run_ids(home)))
        path_of_lock = os.path.join(folder, "lock")
        lock = RunLock.take(path_of_lock, run=run, now=now, by_force=take_over) if write else None
        connection: sqlite3.Connection | None = None
        try:
            with in_our_words(path, run):
                if write:
                    connection = connect(path)
                    if known_version(connection, path, run) < VERSION:
                        migrate(connection, folder)
                else:
                    connection = opened_to_read(path, run)
                store = cls(home, run, connection, lock)
        except BaseException:
            if connection is not None:
                connection.close()
            if lock is not None:
                lock.release()
            raise
        return store

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the record and the lock. Does not commit. May be called twice."""
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._lock is not None:
            self._lock.release()

    # The turn

    def take_turn(self, number: int, driver: Driver, now: float, *, begin: bool = False) -> None:
        """Make this process the driver of the run: from here on whoever had an earlier turn records nothing.

        With `begin` the run is `running`, in the same transaction: each is a wait for the disk.

        `RunLocked` where somebody else took this turn, or a later one, first, or is in the middle of writing.
        """
        try:
            with transaction(self._connection):
                known = schema.read(self._connection, ("turn", "seconds", "began", "last", "started"))
                if known["turn"] >= number:
                    raise locked(self.run, os.path.join(self.folder, "lock"))
                values = {"turn": number, "driver": driver._asdict(), "heard": now}
                values |= {"seconds": worked(known), "began": None}
                schema.write(self._connection, values | (_running(known, now) if begin else {}))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise store_error(error, self._path, self.run) from error
            before, _ = self.last_driver()
            by = f" ({before.words})" if before is not None else ""
            raise RunLocked(
                f"The record of run {self.run!r} was not let go of for {BUSY_MS // 1000} s by its driver{by}:"
                " it may be suspended in the middle of writing.",
                hint="Let that process go on, or end it; then try again.",
            ) from error
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self._path, self.run) from error
        self._turn = number
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.folder, UNDRIVEN))
        if begin:
            self._note()

    @property
    def is_driven_here(self) -> bool:
        """Whether this process took a turn."""
        return self._turn is not None

    def ensure_turn(self) -> None:
        """`TakenOver` where another driver has the run by now."""
        with self._guard():
            self._ensure_turn()

    def beat(self, now: float) -> None:
        """Let it be known that the driver lives."""
        self._write_meta({"heard": now})

    # The run as a whole

    def set_state(self, state: str, now: float) -> None:
        """Record the run's state durably. `running` starts the clock of this driver, any end stops it."""
        state = RunState(state)
        with self._changing():
            known = schema.read(self._connection, ("started", "began", "seconds", "last"))
            values: dict[str, Any] = {"state": state}
            if state is RunState.RUNNING:
                values = _running(known, now)
            elif state is not RunState.QUEUED:
                seconds = (
                    worked(known | {"last": now}) if known.get("began") is not None else known["seconds"]
                )
                values |= {"seconds": seconds, "began": None, "ended": now}
            schema.write(self._connection, values)
        self._note()

    def _note(self) -> None:
        """In the list of runs."""
        with self._guard():
            summary = summarize(self._connection, self.folder)
        record(self.home, summary)

    def keep(self, kept: Kept) -> None:
        """Keep this with the run, durably, in place of what was kept before."""
        with self._changing():
            kind = schema.read_one(self._connection, "kind")
            values = kept.values(kind)
            schema.write(self._connection, {schema.NOTE + name: value for name, value in values.items()})

    # Items

    def journal(self) -> SqliteJournal:
        """The record to be written as the run goes; always the same. What ran or was stopped waits again.

        Who took no turn before takes the next one in the record.
        """
        if self._lock is None:
            raise ValueError(f"run {self.run!r} is open for reading only")
        if self._turn is None:
            self.take_turn(self.turn() + 1, Driver.this(), now=0.0)
        if self._journal is None:
            assert self._turn is not None
            self._journal = SqliteJournal(self._connection, self._path, self.run, self._turn)
        return self._journal

    def take_failed_again(self, wanted: Callable[[Item], bool] = lambda item: True) -> int:
        """Those of the failed items that are still wanted wait again, with none of their attempts used. How many."""
        if self._journal is not None:
            self._journal.commit()
        again = [(item.seq,) for item in self.failed_items() if wanted(item)]
        with self._changing():
            keep_attempts(self._connection, "state='failed' AND seq=?", again)
            self._connection.executemany(
                "UPDATE items SET state='waiting', used=0, node=NULL, started=NULL, seconds=NULL,"
                " metrics=NULL, error=NULL WHERE state='failed' AND seq=?",
                again,
            )
            schema.write(self._connection, {"counts": count_again(self._connection)})
        if self._journal is not None:
            self._journal.reload()
        return len(again)

    def write_results(self) -> str:
        """Write `results.csv`, `results.parquet` and `metrics/reports.csv`, each whole or not at all.

        The path of the first. Who was replaced meanwhile writes them once more, as the record is by then: its heir may
        have written them before. Then `TakenOver`.
        """
        from shoal.store.result_files import write_reports, write_results

        with self._guard():
            self._ensure_turn()
            self._remove_unfinished(".results.")
            write_reports(self._connection, self.folder)
            path = write_results(self._connection, self.folder)
            try:
                self._ensure_turn()
            except TakenOver:
                write_reports(self._connection, self.folder)
                write_results(self._connection, self.folder)
                raise
            return path

    def _remove_unfinished(self, prefix: str) -> None:
        """What drivers that were killed had half written. Only by the driver whose turn it is."""
        for name in os.listdir(self.folder):
            if name.startswith(prefix) and name.endswith(".part"):
                with suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))

    def _write_meta(self, values: Mapping[str, Any]) -> None:
        with self._changing():
            schema.write(self._connection, values)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction of the driver whose turn it is; `TakenOver` where it is not this process."""
        with self._guard(), transaction(self._connection):
            self._ensure_turn()
            yield

    def _ensure_turn(self) -> None:
        if self._turn is not None:
            ensure_turn(self._connection, self.run, self._turn)


def _remove_folder(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _of_plan(plan: Plan | None) -> dict[str, Any]:
    """What of the plan is asked for often."""
    if plan is None:
        return {}
    return {"total": plan.items, "predicted_seconds": plan.document()["predicted_seconds"]}


def _write_plan(folder: str, plan: Plan | None) -> None:
    """For people and for comparing; not synced, since the run does not depend on it."""
    if plan is not None:
        text = json.dumps(plan.document(), indent=2, default=plain) + "\n"
        write_text(os.path.join(folder, "plan.json"), text, durable=False)


def _running(known: Mapping[str, Any], now: float) -> dict[str, Any]:
    """What is recorded of a run when a driver begins to work on it."""
    return {"state": RunState.RUNNING, "started": known.get("started") or now, "began": now, "ended": None}


def _fill(connection: sqlite3.Connection, known: Mapping[str, Any]) -> None:
    make_tables(connection)
    schema.write(connection, known)


def _new_folder(home: str, name: str, token: Callable[[], str]) -> tuple[str, str]:
    for _ in range(_NAME_TRIES):
        run = f"{name}-{token()}"
        folder = run_folder(home, run)
        try:
            make_closed(folder)
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_make(folder, error) from error
        return run, folder
    raise SpecError(
        f"There are too many runs named {name!r} in {home}.", hint="Remove some of them with `shoal rm`."
    )
