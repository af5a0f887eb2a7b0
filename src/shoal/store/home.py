"""Where runs are kept: the `.shoal` folder, runs by id, prefix or name, stubs of those that were detached, their list.

The list in `index.db` is only a shortcut: the run folders are the truth.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from shoal.errors import NotFound, RunElsewhere, SpecError, StoreError, nearest
from shoal.files import make_closed, why_not_ours, write_bytes, write_text
from shoal.model import RunState
from shoal.store import schema
from shoal.store.driver import Driver, RunLock, is_locked
from shoal.store.profiles import Database, changing, ignoring_trouble, reading
from shoal.store.schema import opened_to_read
from shoal.store.sqlite import in_our_words

FOLDER = ".shoal"
VARIABLE = "SHOAL_HOME"
_HINT = "Set SHOAL_HOME to a folder that can be written."
STUBS = "detached"
_STATES = frozenset(RunState)
_TABLES = (
    "CREATE TABLE runs(run TEXT PRIMARY KEY, kind TEXT, name TEXT, state TEXT, created REAL, seconds REAL,"
    " stamp INT) WITHOUT ROWID"
)
_INDEX = Database("index.db", (_TABLES,))
_KEYS = ("run", "kind", "name", "state", "created", "turn", "seconds", "began", "last", "driver")


def find_home(cwd: str, environ: Mapping[str, str]) -> str:
    """`SHOAL_HOME`, else the nearest `.shoal` in `cwd` and its parents, else the one to be made in `cwd`.

    To look at: it may be another user's. `ensure_own` comes before anything in it is changed or run.
    """
    given = environ.get(VARIABLE)
    if given:
        return os.path.abspath(os.path.join(cwd, os.path.expanduser(given)))
    start = folder = os.path.abspath(cwd)
    while True:
        if os.path.isdir(os.path.join(folder, FOLDER)):
            return os.path.join(folder, FOLDER)
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.join(start, FOLDER)
        folder = parent


def home_for_new_runs(cwd: str, environ: Mapping[str, str]) -> str:
    """As `find_home`, but one that is another user's is left alone, with a word: then it is the one in `cwd`."""
    found = find_home(cwd, environ)
    whose = foreign(found, environ)
    if whose is None:
        return found
    own = os.path.join(os.path.abspath(cwd), FOLDER)
    if own == found:
        ensure_own(found, environ)
    _warn(f"{whose}, and is not used: runs are kept in {own}.")
    return own


def foreign(home: str, environ: Mapping[str, str], run: str | None = None) -> str | None:
    """Whose this home, or this run in it, is, in words; None where it is ours, or the user named it by `SHOAL_HOME`."""
    if environ.get(VARIABLE):
        return None
    paths = [home, os.path.join(home, "runs")]
    if run is not None:
        paths += [run_folder(home, run), os.path.join(run_folder(home, run), "run.db")]
    for path in paths:
        with suppress(OSError):  # What is not there, or cannot be looked at, is not used either.
            if reason := why_not_ours(path):
                return f"{path} {reason}"
    return None


def ensure_own(home: str, environ: Mapping[str, str], run: str | None = None) -> None:
    """Raises `SpecError` where this home, or this run in it, is another's: its commands would run as us."""
    if whose := foreign(home, environ, run):
        raise SpecError(
            f"{whose}: what is recorded there may be looked at, but not be run or changed.",
            hint=f"{VARIABLE} names a folder that you trust; or keep runs of your own here: mkdir {FOLDER}",
        )


def say_whose(home: str, environ: Mapping[str, str]) -> None:
    """A word, once, to somebody who looks at runs that are not theirs."""
    if whose := foreign(home, environ):
        _warn(f"{whose}: these runs are not yours.")


@cache
def _warn(sentence: str) -> None:
    import logging

    logging.getLogger(__name__).warning("%s", sentence)


def make_home(home: str) -> None:
    """Make the folder where it is missing, closed to others (`make_closed`).

    `SpecError` when it cannot be: then nothing can be recorded.
    """
    try:
        new = not os.path.isdir(home)
        os.makedirs(os.path.dirname(home), exist_ok=True)
        for folder in (home, os.path.join(home, "runs")):
            if not os.path.isdir(folder):
                _make(folder)
    except OSError as error:
        raise cannot_make(home, error) from error
    if new:
        with suppress(OSError), open(os.path.join(home, ".gitignore"), "w", encoding="utf-8") as file:
            file.write("*\n")  # runs are no source code


def _make(folder: str) -> None:
    try:
        make_closed(folder)
    except FileExistsError:
        if not os.path.isdir(folder):  # Another run may have made it just now.
            raise


def cannot_make(path: str, error: Exception) -> SpecError:
    """The error for a folder that cannot be made; says what is in the way when something is."""
    blocker = getattr(error, "filename", None) or path
    while blocker and not os.path.lexists(blocker):
        blocker = os.path.dirname(blocker)
    found = (
        f"{blocker} is a file, not a folder"
        if os.path.isfile(blocker)
        else str(getattr(error, "strerror", None) or error)
    )
    return SpecError(f"Runs cannot be kept in {path}: {found}.", hint=_HINT)


def run_folder(home: str, run: str) -> str:
    return os.path.join(home, "runs", run)


def run_ids(home: str) -> list[str]:
    """The ids of all runs, sorted. Folders without a record, such as one that is being made, are left out."""
    try:
        names = os.listdir(os.path.join(home, "runs"))
    except OSError:
        return []
    present = (name for name in names if not name.startswith("."))
    return sorted(name for name in present if os.path.isfile(os.path.join(home, "runs", name, "run.db")))


def resolve_run(home: str, text: str) -> str:
    """The id of the run that a person means: its id, a unique prefix, its name (the latest), or `last`.

    Raises `RunElsewhere` for one that was detached.
    """
    here = run_ids(home)
    away = {stub.run: stub for stub in stubs(home) if stub.run not in here}
    run = _resolve(home, text, sorted([*here, *away]))
    if run in away:
        raise RunElsewhere(
            f"Run {run} was detached to the cluster of {away[run].cluster}.",
            hint=f"Look at it with the command line: shoal show {run}",
            asked=text,
            run=run,
        )
    return run


def _resolve(home: str, text: str, ids: list[str]) -> str:
    if text in ids:
        return text
    named = ids if text == "last" else [run for run in ids if name_of(run) == text]
    if named:
        return _latest(home, named)
    matches = [run for run in ids if text and run.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        some = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
        raise NotFound(f"{text!r} is the start of {len(matches)} runs: {some}.", hint="Give more of the id.")
    hint = nearest(text, ids) if len(ids) <= 10 or _is_close(text, ids) else "See `shoal ls` for all runs."
    if not ids:
        hint = f"There are no runs in {home}."
    raise NotFound(f"There is no run {text!r}.", hint=hint)


def name_of(run: str) -> str:
    """The workload's name in a run id."""
    return run.rpartition("-")[0]


def _latest(home: str, runs: list[str]) -> str:
    if len(runs) == 1:
        return runs[0]
    wanted = set(runs)
    known = [(each.created, each.run) for each in list_runs(home)]
    known += [(each.created, each.run) for each in stubs(home)]
    return max((entry for entry in known if entry[1] in wanted), default=(0.0, runs[-1]))[1]


def _is_close(text: str, ids: list[str]) -> bool:
    from difflib import get_close_matches

    return bool(get_close_matches(text, ids, n=1))


class Stub(NamedTuple):
    """A run whose folder is on a cluster."""

    run: str
    kind: str
    name: str
    cluster: str
    """The cluster file."""
    workload: str
    """The workload file here, which is shipped again when the run is resumed."""
    created: float
    state: RunState = RunState.QUEUED
    seconds: float = 0.0


def keep(home: str, stub: Stub) -> None:
    if not os.path.isdir(os.path.join(home, STUBS)):
        make_closed(os.path.join(home, STUBS))
    write_text(_path(home, stub.run), json.dumps(stub._asdict()), durable=False)


def stubs(home: str) -> list[Stub]:
    """All of them; one that cannot be read is left out."""
    try:
        names = sorted(os.listdir(os.path.join(home, STUBS)))
    except OSError:
        return []
    found = (find(home, name.removesuffix(".json")) for name in names if name.endswith(".json"))
    return [stub for stub in found if stub is not None]


def find(home: str, run: str) -> Stub | None:
    try:
        with open(_path(home, run), encoding="utf-8") as file:
            found = Stub(**json.load(file))
            return found._replace(state=RunState(found.state))
    except (OSError, ValueError, TypeError):
        return None


def keep_report(home: str, run: str, page: bytes) -> str:
    """A copy of the report of this run; its path."""
    path = _path(home, run, "html")
    write_bytes(path, page)
    return path


def forget(home: str, run: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_path(home, run, "html"))
    os.unlink(_path(home, run))


def _path(home: str, run: str, ending: str = "json") -> str:
    return os.path.join(home, STUBS, f"{run}.{ending}")


# The list of runs.


def record(home: str, summary: RunSummary) -> None:
    """Note the present state of a run. Never raises: an index that is behind is put right when it is read."""
    with ignoring_trouble(), changing(home, _INDEX) as connection:
        _put(connection, [summary])


def list_runs(home: str) -> list[RunSummary]:
    """All runs, newest first, with the state that is true now. A run that cannot be read is left out."""
    known = _read(home)
    found: list[RunSummary] = []
    changed: list[RunSummary] = []
    for run in run_ids(home):
        folder = run_folder(home, run)
        summary, stamp = known.pop(run, (None, 0))
        if summary is None or stamp != _stamp(folder) or summary.state.is_active:
            try:
                summary = read_summary(folder)
            except StoreError:
                continue
            changed.append(summary)
        found.append(summary)
    if (changed or known) and why_not_ours(home) is None:  # Of another user nothing is written, only read.
        with ignoring_trouble(), changing(home, _INDEX) as connection:
            _put(connection, changed)
            _drop(connection, known)
    return sorted(found, key=lambda summary: (summary.created, summary.run), reverse=True)


def remove(home: str, run: str, *, now: float) -> None:
    """Delete a run's folder and all that is in it. `RunLocked` while it has a driver."""
    import shutil

    folder = run_folder(home, run)
    aside = os.path.join(home, "runs", f".removed-{run}")
    lock = RunLock.take(os.path.join(folder, "lock"), run=run, now=now)
    try:
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)  # in one step: nobody sees half a run
        shutil.rmtree(aside)
    except OSError as error:
        hint = f"Check who may write in {home}."
        raise StoreError(f"Run {run!r} cannot be removed: {error.strerror or error}.", hint=hint) from error
    finally:
        lock.release()
    with ignoring_trouble(), changing(home, _INDEX) as connection:
        _drop(connection, [run])


def _read(home: str) -> dict[str, tuple[RunSummary | None, int]]:
    """What the index says, with each run's stamp when it was written. Empty when it cannot say."""
    rows: list[tuple[str, str, str, str, float, float, int]] = []
    with ignoring_trouble(), reading(home, _INDEX) as connection:
        query = "SELECT run, kind, name, state, created, seconds, stamp FROM runs"
        rows = connection.execute(query).fetchall()
    types = (str, str, str, str, float, float, int)
    known = [row for row in rows if all(map(isinstance, row, types))]  # a damaged page may hold anything
    return {
        run: (RunSummary(run, kind, name, RunState(state), created, seconds, run_folder(home, run)), stamp)
        for run, kind, name, state, created, seconds, stamp in known
        if state in _STATES
    }


def _put(connection: sqlite3.Connection, summaries: Iterable[RunSummary]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?)",
        [(*summary[:6], _stamp(summary.folder)) for summary in summaries],
    )


def _drop(connection: sqlite3.Connection, runs: Iterable[str]) -> None:
    connection.executemany("DELETE FROM runs WHERE run=?", [(run,) for run in runs])


def _stamp(folder: str) -> int:
    """Changes whenever a driver takes the run, so that what was true before is not believed after."""
    try:
        return os.stat(os.path.join(folder, "lock")).st_mtime_ns
    except OSError:
        return 0


class RunSummary(NamedTuple):
    """`seconds` is how long drivers worked on it: up to their last sign of life, where one was killed."""

    run: str
    kind: str
    name: str
    state: RunState
    created: float
    seconds: float
    folder: str


def read_summary(folder: str) -> RunSummary:
    """From the run's own record. `StoreError` when it cannot be read."""
    path, run = os.path.join(folder, "run.db"), os.path.basename(folder)
    with in_our_words(path, run):
        connection = opened_to_read(path, run)
        try:
            return summarize(connection, folder)
        finally:
            connection.close()


def summarize(connection: sqlite3.Connection, folder: str) -> RunSummary:
    known = schema.read(connection, _KEYS)
    state = RunState(known["state"])
    driver = Driver.read(known.get("driver") or {})
    lives = is_locked(os.path.join(folder, "lock")) or (driver is not None and driver.is_alive())
    if state.is_active and not lives:
        # The driver may have ended the run, or a new one begun, since we read: only what stays so is true.
        again = schema.read(connection, _KEYS)
        same = (again["state"], again["turn"]) == (state, known["turn"])
        known, state = again, RunState.INTERRUPTED if same else RunState(again["state"])
    return RunSummary(
        known["run"], known["kind"], known["name"], state, known["created"], worked(known), folder
    )


def worked(known: dict[str, Any]) -> float:
    """Seconds of work by all drivers so far; `began` is when the present one did, None between drivers."""
    seconds: float = known.get("seconds", 0.0)
    began = known.get("began")
    return seconds if began is None else seconds + max(0.0, known.get("last", began) - began)
