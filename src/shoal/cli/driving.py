"""Driving a run to its end in this terminal: a display, Ctrl-C, and what came of it. Needs no click."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.cli.stopping import Stopping

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
    run_id: str | None = None,
) -> int:
    """Run a workload file; the exit code."""
    from shoal.api import workloads
    from shoal.api.machines import machines
    from shoal.api.running import new_session
    from shoal.cluster.here import Here

    if cluster is not None:
        from shoal.api.detaching import must_be_detached

        if must_be_detached(cluster):
            from shoal.cli import detached

            return detached.detach_and_follow(file, cluster, sets, limit, as_json)
    prepared = workloads.from_file(file, sets, limit)
    where = machines(cluster, _say)
    _install(prepared, where)
    with Stopping(as_json=as_json) as stopping:
        summary = drive(new_session(prepared, where, Here(), run_id=run_id), stopping)
    return tell(summary, as_json)


def _say(line: str) -> None:
    from shoal.cli.output import say

    say(line)


def _install(prepared: Prepared, where: Machines) -> None:
    """Have packages installed on this machine, and say so. Before signals mean stopping a run: there is none yet."""
    from shoal.api import packages

    if where.embedded:
        where.ensure_room(prepared.job.asks())
        news = packages.announcement(prepared.job)
        if news is not None:
            _say(news)
        packages.equip(prepared.job, where)


def resume(run: str, failed: bool, cluster: str | None, take_over: bool, trust: bool, as_json: bool) -> int:
    """Go on with a run; the exit code."""
    from shoal.api import running
    from shoal.api.summary import Summary

    with Stopping(as_json=as_json) as stopping:
        found = running.resume(
            run, failed=failed, cluster=cluster, take_over=take_over, trust=trust, tell=_say
        )
        summary = found if isinstance(found, Summary) else drive(found, stopping)
    return tell(summary, as_json)


def tell(summary: Summary, as_json: bool) -> int:
    """Say what came of it; the exit code."""
    from shoal.cli import ending

    return ending.tell(summary, as_json)


def drive(session: Session, stopping: Stopping) -> Summary:
    """To the end of the run, with a display."""
    from shoal.api.display.board import Board
    from shoal.api.inference import inputs_before
    from shoal.cli.display import display_for, greet

    info = session.store.info()
    board = Board.of(info, session.job.total(), inputs_before(session.store, info))
    display = display_for(board)
    session.watch(display)
    gc.enable()
    stopping.attach(session, board)
    greet(info, board)
    try:
        return session.drive()
    finally:
        display.close()
