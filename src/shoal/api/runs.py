"""Starting things: run, start, resume, stop, plan and check. The command line calls these, and so may anybody."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shoal.api import workloads
from shoal.api.machines import Machines, machines
from shoal.api.session import STOP_FILE, Session, all_items, summarize
from shoal.api.views.lookup import run_to_change
from shoal.api.workloads import Prepared, Target
from shoal.cluster.base import Tell
from shoal.cluster.this_machine import Here
from shoal.engine import room
from shoal.errors import Problem, ShoalError, SpecError, several
from shoal.model import Plan, RunState
from shoal.model.record import Summary
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
from shoal.store.profiles import recall, recall_learned
from shoal.work.job import Job, Past
from shoal.work.kind import workload_of

if TYPE_CHECKING:
    from shoal.api.handle import Run

STOP_PATIENCE_S = 30.0


def run(
    target: Target,
    rows: Iterable[Mapping[str, Any]] | None = None,
    *,
    cluster: str | None = None,
    sets: Sequence[str] = (),
    limit: int | None = None,
    display: bool = True,
    inline: bool = False,
    plan: str | None = None,
    **settings: Any,
) -> Run:
    """Run a workload file, or a function once per row, and wait for the end.

    `shoal.run("sweep.yaml")`, or `shoal.run(train, [{"lr": 0.1}, {"lr": 0.01}], retries=1)`. Ctrl-C stops it
    cleanly. A run that ended with failures is returned like any other: look at `.state`. With `inline`, items run in
    this thread, one at a time, so that debuggers work; there is no display then. `plan` is a file that `shoal plan
    --json` printed, which the run follows.
    """
    if inline:
        from shoal.api.handle import Run

        here = Here()
        prepared = workloads.prepared(target, rows, sets, limit, settings, here.folder, inline=True)
        return Run.in_this_thread(
            lambda: new_session(prepared, machines(cluster, inline=True), here, plan=plan)
        )
    handle = start(
        target, rows, cluster=cluster, sets=sets, limit=limit, display=display, plan=plan, **settings
    )
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
    plan: str | None = None,
    **settings: Any,
) -> Run:
    """Like `run`, but returns at once: `for row in run.results(): ...` gives rows as trials finish."""
    from shoal.api.display import display_for_python
    from shoal.api.handle import Run

    here = Here()
    prepared = workloads.prepared(target, rows, sets, limit, settings, here.folder)
    handle = Run.begin(lambda: new_session(prepared, machines(cluster), here, plan=plan))
    if display:
        handle.show(display_for_python(handle))
    return handle


def new_session(
    prepared: Prepared,
    where: Machines,
    here: Here,
    watcher: Watcher | None = None,
    run_id: str | None = None,
    plan: str | None = None,
) -> Session:
    """A new run of a prepared workload, ready to be driven. Nothing is made before everything is known to fit.

    `plan` is the file of a saved plan, to be followed.
    """
    _ensure_possible(prepared.job, where)
    home = home_for_new_runs(here.folder, here.environment)
    plan_ = _plan(prepared, where, home)
    if plan is not None:
        from shoal.api import saved_plan

        prepared, plan_ = saved_plan.follow(plan, prepared, where, plan_)
        prepared.job.fit(where.nodes, here=where.here)
    where.ready(prepared.job.asks())
    try:
        workloads.equip(prepared.job, where)
        session = _begin(prepared, where, here, home, plan_, run_id)
    except BaseException:
        where.close()
        raise
    if watcher is not None:
        session.watch(watcher)
    return session


def _ensure_possible(job: Job, where: Machines) -> None:
    """Raises `SpecError` when these machines cannot run it: no room, no way to its files or packages."""
    job.fit(where.nodes, here=where.here)
    where.ensure_room(job.asks())
    where.ensure_shippable(job.folder)
    where.ensure_reachable(job.local_paths())
    where.ensure_equippable(job.packages)


def _begin(
    prepared: Prepared,
    where: Machines,
    here: Here,
    home: str,
    plan_: Plan,
    run_id: str | None,
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
        if where.storage() is not None:
            from shoal.api import succession

            succession.seal(store, here)
        return Session(store, prepared.job, where, here, ceiling=prepared.document.get("ceiling"))
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
    from shoal.api import saved_plan, succession

    here = Here()
    home = find_home(here.folder, here.environment)
    ensure_own(home, here.environment)
    found = succession.found(home, run, cluster, tell)
    ensure_own(home, here.environment, found)
    store = succession.opened(home, found, cluster, take_over, here, tell)
    try:
        succession.ensure_trusted(store, lambda: _again(store).spec, here, trust, tell)
        if not failed and store.state() is RunState.SUCCEEDED and not _more(store):
            summary = summarize(store)
            store.close()
            return summary
        prepared = _again(store)
        where = machines(cluster or store.document.get("cluster"), tell)
        ceiling = saved_plan.ceiling(prepared.document, where)
        _ensure_possible(prepared.job, where)
        where.ready(prepared.job.asks())
        try:
            workloads.equip(prepared.job, where)
            session = Session(store, prepared.job, where, here, failed=failed, ceiling=ceiling)
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
    from shoal.api.handle import Run
    from shoal.api.views import lookup

    with lookup.open_run(run) as store:
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
    spec = workload_of(store)
    job = workloads.job_of(spec, limit=document["limit"])
    job.began_with(document.get("made_of"))
    return Prepared(spec, job, document)


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
    target: str,
    *,
    cluster: str | None = None,
    sets: Sequence[str] = (),
    limit: int | None = None,
    to_save: bool = False,
) -> Plan:
    """What would happen, why, and how long it would take. Starts nothing.

    `to_save` also looks at all inputs and tells what the plan is made for, so that a run can follow it later.
    """
    prepared, where, here = workloads.from_file(target, sets, limit), machines(cluster), Here()
    found = _plan(prepared, where, home_for_new_runs(here.folder, here.environment))
    if not to_save:
        return found
    from shoal.api.saved_plan import made_for

    return found._replace(made_for=made_for(prepared, where))


def _plan(prepared: Prepared, where: Machines, home: str) -> Plan:
    job = prepared.job
    job.fit(where.nodes, here=where.here)
    asks = job.asks()
    where.ensure_room(asks)
    nodes = where.at_first(asks)
    profile, learned = recall(home, job.fingerprint), recall_learned(home, job.fingerprint)
    made = where.with_growth(job.plan(nodes, profile, learned), asks)
    first = room.spread(made.workers, {node.host: room.slots(asks, node) for node in nodes})
    later = {node.host: room.slots(asks, node) for node in where.nodes if node.host not in first}
    return made._replace(
        decisions=(*made.decisions, *workloads.decision(prepared.job, where)),
        workers_by_node={**first, **later},
        settings=job.settings(),
    )


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
    missing = workloads.problems(prepared.job, where)
    if missing:
        raise several(missing)
    return prepared
