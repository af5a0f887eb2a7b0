"""Starting things: run, start, resume, stop, plan and check. The command line calls these, and so may anybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shoal.api import packages, seals, workloads
from shoal.api.machines import Machines, machines
from shoal.api.reading import run_to_change
from shoal.api.session import STOP_FILE, Session, all_items, summarize
from shoal.api.summary import Summary
from shoal.api.workloads import Prepared
from shoal.cluster.base import Tell
from shoal.cluster.here import Here
from shoal.errors import Problem, ShoalError, SpecError, several
from shoal.model import Plan, RunState
from shoal.shape.base import Watcher
from shoal.store import (
    RunStore,
    ensure_own,
    find_home,
    home_for_new_runs,
    is_locked,
    run_folder,
)
from shoal.store import remove as remove_run
from shoal.store.learned import recall_learned
from shoal.store.profiles import recall
from shoal.work.job import Job, Past

if TYPE_CHECKING:
    from shoal.api.handle import Run

STOP_PATIENCE_S = 30.0

Target = str | os.PathLike[str] | Callable[..., Any]


def run(
    target: Target,
    rows: Iterable[Mapping[str, Any]] | None = None,
    *,
    cluster: str | None = None,
    sets: Sequence[str] = (),
    limit: int | None = None,
    display: bool = True,
    **settings: Any,
) -> Run:
    """Run a workload file, or a function once per row, and wait for the end.

    `shoal.run("sweep.yaml")`, or `shoal.run(train, [{"lr": 0.1}, {"lr": 0.01}], retries=1)`. Ctrl-C stops it
    cleanly. A run that ended with failures is returned like any other: look at `.state`.
    """
    handle = start(target, rows, cluster=cluster, sets=sets, limit=limit, display=display, **settings)
    handle.wait()
    return handle


def start(
    target: Target,
    rows: Iterable[Mapping[str, Any]] | None = None,
    *,
    cluster: str | None = None,
    sets: Sequence[str] = (),
    limit: int | None = None,
    display: bool = False,
    **settings: Any,
) -> Run:
    """Like `run`, but returns at once: `for row in run.results(): ...` gives rows as trials finish."""
    from shoal.api import functions
    from shoal.api.display import display_for_python
    from shoal.api.handle import Run

    here = Here()
    if callable(target):
        prepared = functions.from_function(target, rows, settings, here.folder, limit)
    else:
        if not isinstance(target, str | os.PathLike):
            raise SpecError(
                f"Expected a workload file or a function, found a {type(target).__name__}.",
                hint='shoal.run("sweep.yaml"), or shoal.run(function, rows).',
            )
        _refuse_settings(rows, settings)
        prepared = workloads.from_file(os.fspath(target), sets, limit)
    handle = Run.begin(lambda: new_session(prepared, machines(cluster), here))
    if display:
        handle.show(display_for_python(handle))
    return handle


def _refuse_settings(rows: object, settings: Mapping[str, Any]) -> None:
    if rows is not None or settings:
        raise SpecError(
            "Rows and settings go with a function, not with a workload file.",
            hint="Write them into the file, or pass sets=['limits.retries=1'].",
        )


def new_session(
    prepared: Prepared,
    where: Machines,
    here: Here,
    watcher: Watcher | None = None,
    run_id: str | None = None,
) -> Session:
    """A new run of a prepared workload, ready to be driven. Nothing is made before everything is known to fit."""
    _ensure_possible(prepared.job, where)
    home = home_for_new_runs(here.folder, here.environment)
    plan_ = _plan(prepared, where, home)
    where.ready(prepared.job.asks())
    try:
        packages.equip(prepared.job, where)
        session = _begin(prepared, where, here, home, plan_, run_id)
    except BaseException:
        where.close()
        raise
    if watcher is not None:
        session.watch(watcher)
    return session


def _ensure_possible(job: Job, where: Machines) -> None:
    """Raises `SpecError` when these machines cannot run it: no room, no way to its files."""
    job.fit(where.nodes, here=where.here)
    where.ensure_room(job.asks())
    where.ensure_shippable(job.folder)
    where.ensure_reachable(job.local_paths())


def _begin(
    prepared: Prepared, where: Machines, here: Here, home: str, plan_: Plan, run_id: str | None
) -> Session:
    """The run is made, on machines that are ready."""
    objective = getattr(prepared.spec, "objective", None)
    store = RunStore.create(
        home,
        name=prepared.spec.name,
        kind=prepared.spec.kind,
        spec_text=prepared.spec.source,
        document={**prepared.document, "cluster": where.file, "made_of": prepared.job.made_of()},
        token=lambda: here.token(4) if run_id is None else run_id.rpartition("-")[2],
        now=here.now(),
        objective=(objective.metric, objective.goal) if objective is not None else None,
        plan=plan_,
    )
    try:
        if prepared.rows is not None:
            from shoal.api import functions

            functions.settle(prepared, store.folder)
        seals.seal(store, where, here)
        return Session(store, prepared.job, where, here)
    except ShoalError:
        # What could not begin, as its output is somebody else's, is no run.
        _leave(store, here)
        raise
    except BaseException:
        store.close()
        raise


def _leave(store: RunStore, here: Here) -> None:
    never_began = store.state() is RunState.QUEUED
    store.close()
    if never_began:
        with suppress(ShoalError):  # Why it could not begin is what the person should hear.
            remove_run(store.home, store.run, now=here.now())


def resume(
    run: str,
    *,
    failed: bool = False,
    cluster: str | None = None,
    take_over: bool = False,
    trust: bool = False,
    watcher: Watcher | None = None,
    tell: Tell = lambda line: None,
) -> Session | Summary:
    """Go on with what is not done: a session to drive, or the summary when there is nothing left to do.

    A driver that is alive, or was heard of within a minute, is replaced only if `take_over` insists. `trust` runs a
    function that came by value from a storage, where others may have put it.
    """
    from shoal.api import succession

    here = Here()
    home = find_home(here.folder, here.environment)
    ensure_own(home, here.environment)
    found = succession.found(home, run, cluster, tell)
    ensure_own(home, here.environment, found)
    store = succession.opened(home, found, cluster, take_over, here, tell)
    try:
        seals.ensure_trusted(store, lambda: _again(store).spec, here, trust, tell)
        if not failed and store.state() is RunState.SUCCEEDED and not _more(store):
            summary = summarize(store)
            store.close()
            return summary
        prepared = _again(store)
        where = machines(cluster or store.document.get("cluster"), tell)
        _ensure_possible(prepared.job, where)
        where.ready(prepared.job.asks())
        try:
            packages.equip(prepared.job, where)
            session = Session(store, prepared.job, where, here, failed=failed)
        except BaseException:
            where.close()
            raise
    except BaseException:
        store.close()
        raise
    if watcher is not None:
        session.watch(watcher)
    return session


def resume_run(
    run: str,
    *,
    failed: bool = False,
    cluster: str | None = None,
    take_over: bool = False,
    trust: bool = False,
    display: bool = True,
) -> Run:
    """Go on with a stopped, failed or killed run, and wait for its end. `failed` takes the failed items again.

    `take_over` replaces a driver that was heard of a moment ago: for one that is gone for good, on another machine.
    `trust` runs a function that came by value from a storage, where others may have put it.
    """
    from shoal.api.display import display_for_python
    from shoal.api.handle import Run

    def make() -> Session:
        found = resume(run, failed=failed, cluster=cluster, take_over=take_over, trust=trust)
        if isinstance(found, Summary):
            raise _Over(found)
        return found

    try:
        handle = Run.begin(make)
    except _Over as over:
        return Run.over(over.summary)
    if display:
        handle.show(display_for_python(handle))
    handle.wait()
    return handle


def open_run(run: str) -> Run:
    """A run of before, or one that another process drives: by id, unique prefix, name (its latest), or `last`."""
    from shoal.api import reading
    from shoal.api.handle import Run

    with reading.open_run(run) as store:
        return Run.opened(store.run, store.folder)


class _Over(Exception):  # noqa: N818 - not an error: there is nothing left to do
    def __init__(self, summary: Summary) -> None:
        super().__init__(summary.run)
        self.summary = summary


def _again(store: RunStore) -> Prepared:
    """The workload of a run, as its file was then; the table beside it as it is now."""
    document = store.document
    if "rows" in document:
        from shoal.api import functions

        return functions.again(store)
    from shoal import spec as specs

    spec = specs.loads(
        store.spec_text,
        folder=workload_folder(document["path"]),
        label=os.path.basename(document["path"]),
        sets=document["sets"],
    )
    assert isinstance(spec, specs.Workload)
    job = workloads.job_of(spec, limit=document["limit"])
    job.began_with(document.get("made_of"))
    return Prepared(spec, job, document)


def workload_folder(path: str) -> str:
    """Where the workload's file was; on another machine, to which only the run was brought, the current folder."""
    here = Here().folder
    moved = not os.path.exists(path) and os.path.exists(os.path.join(here, os.path.basename(path)))
    return here if moved else os.path.dirname(path)


def _more(store: RunStore) -> bool:
    """Whether a finished run has new items: rows that were added or changed since. A table that is gone has none."""
    try:
        prepared = _again(store)
    except SpecError:
        return False
    return prepared.job.has_more(
        Past(store.max_seq() + 1, store.known_contents(), items=lambda: all_items(store))
    )


def stop(run: str) -> RunState:
    """Ask a run to end, and wait until it has: its state then."""
    here = Here()
    home, name = run_to_change(run)
    folder = run_folder(home, name)
    lock = os.path.join(folder, "lock")
    if not is_locked(lock):
        with RunStore.open(home, name, write=False, now=here.now()) as store:
            raise SpecError(f"Run {name} is not running: it is {store.state()}.", hint="Nothing to stop.")
    with open(os.path.join(folder, STOP_FILE), "w"):
        pass
    waited = 0.0
    while is_locked(lock) and waited < STOP_PATIENCE_S:
        here.pause(0.05)
        waited += 0.05
    with RunStore.open(home, name, write=False, now=here.now()) as store:
        return store.state()


def plan(
    target: str, *, cluster: str | None = None, sets: Sequence[str] = (), limit: int | None = None
) -> Plan:
    """What would happen, why, and how long it would take. Starts nothing."""
    prepared = workloads.from_file(target, sets, limit)
    here = Here()
    return _plan(prepared, machines(cluster), home_for_new_runs(here.folder, here.environment))


def _plan(prepared: Prepared, where: Machines, home: str) -> Plan:
    job = prepared.job
    job.fit(where.nodes, here=where.here)
    asks = job.asks()
    where.ensure_room(asks)
    nodes = where.at_first(asks)
    profile, learned = recall(home, job.fingerprint), recall_learned(home, job.fingerprint)
    made = where.with_growth(job.plan(nodes, profile, learned), asks)
    return made._replace(decisions=(*made.decisions, *packages.decision(prepared.job, where)))


def check(target: str, *, cluster: str | None = None, sets: Sequence[str] = ()) -> Prepared:
    """Everything that can be known to be wrong, without starting anything; raises it, or returns the workload."""
    problems: list[Problem] = []
    try:
        where = machines(cluster)
    except SpecError as error:
        problems += error.problems
    try:
        prepared = workloads.from_file(target, sets)
    except SpecError as error:
        problems += error.problems
    if problems:
        raise several(problems)
    _ensure_possible(prepared.job, where)
    missing = packages.problems(prepared.job, where)
    if missing:
        raise several(missing)
    return prepared
