"""Driving a run to its end in this terminal: a display, Ctrl-C, and what came of it. Needs no click."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING

from shoal.cli.signals import Stopping

if TYPE_CHECKING:
    from shoal.api.machines import Machines
    from shoal.api.session import Session
    from shoal.api.summary import Summary
    from shoal.api.workloads import Prepared


def run(
    file: str,
    cluster: str | None,
    sets: Sequence[str],
    limit: int | None,
    as_json: bool,
    inline: bool = False,
    plan: str | None = None,
    run_id: str | None = None,
) -> int:
    """Run a workload file; the exit code."""
    from shoal.api import workloads
    from shoal.api.machines import machines
    from shoal.api.runs import new_session
    from shoal.cluster.here import Here

    if cluster is not None and not inline:
        from shoal.api.clusters.detached_runs import must_be_detached

        if must_be_detached(cluster):
            from shoal.cli import detached

            detached.refuse_plan(plan)
            return detached.detach_and_follow(file, cluster, sets, limit, as_json)
    prepared = workloads.from_file(file, sets, limit, inline=inline)
    where = machines(cluster, _say, inline=inline)
    where.ensure_equippable(prepared.job.packages)
    _install(prepared, where)
    with Stopping(as_json=as_json) as stopping:
        session = new_session(prepared, where, Here(), run_id=run_id, plan=plan)
        summary = drive(session, stopping, inline=inline)
    return tell(summary, as_json)


def _say(line: str) -> None:
    from shoal.cli.output import say

    say(line)


def _install(prepared: Prepared, where: Machines) -> None:
    """Have packages installed on this machine, and say so. Before signals mean stopping a run: there is none yet."""
    from shoal.api import workload_packages

    if where.embedded:
        where.ensure_room(prepared.job.asks())
        news = workload_packages.announcement(prepared.job)
        if news is not None:
            _say(news)
        workload_packages.equip(prepared.job, where)


def resume(run: str, failed: bool, cluster: str | None, take_over: bool, trust: bool, as_json: bool) -> int:
    """Go on with a run; the exit code."""
    from shoal.api import runs
    from shoal.api.summary import Summary

    with Stopping(as_json=as_json) as stopping:
        found = runs.resume(run, failed=failed, cluster=cluster, take_over=take_over, trust=trust, tell=_say)
        summary = found if isinstance(found, Summary) else drive(found, stopping)
    return tell(summary, as_json)


def tell(summary: Summary, as_json: bool) -> int:
    """Say what came of it; the exit code."""
    from shoal.cli import end_of_run

    return end_of_run.tell(summary, as_json)


def drive(session: Session, stopping: Stopping, *, inline: bool = False) -> Summary:
    """To the end of the run, with a display: in lines where items run `inline`, as a debugger may ask in between.

    What such items print goes where it is seen, and not among the results in a file.
    """
    from shoal.api.display.board import Board
    from shoal.cli.display import display_for, greet

    info = session.store.info()
    board = Board.of(info, session.job.total(), session.store)
    display = display_for(board, live=not inline)
    session.watch(display)
    gc.enable()
    stopping.attach(session, board)
    greet(info, board)
    aside = redirect_stdout(sys.stderr) if inline and not sys.stdout.isatty() else nullcontext()
    try:
        with aside:
            return session.drive()
    finally:
        display.close()
