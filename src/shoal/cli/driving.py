"""Driving a run to its end in this terminal: a display, Ctrl-C, and what came of it. Needs no click."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.api.session import Session


def run(file: str, cluster: str | None, sets: Sequence[str], limit: int | None, as_json: bool) -> int:
    """Run a workload file; the exit code."""
    from shoal.api import workloads
    from shoal.api.machines import machines
    from shoal.api.running import new_session
    from shoal.cluster.here import Here

    prepared = workloads.from_file(file, sets, limit)
    return drive(new_session(prepared, machines(cluster), Here()), as_json)


def resume(run: str, failed: bool, cluster: str | None, as_json: bool) -> int:
    """Go on with a run; the exit code."""
    from shoal.api import running
    from shoal.api.summary import Summary

    session = running.resume(run, failed=failed, cluster=cluster)
    if isinstance(session, Summary):
        from shoal.cli import ending

        return ending.tell(session, as_json)
    return drive(session, as_json)


def drive(session: Session, as_json: bool) -> int:
    """To the end of the run, with a display; then what came of it."""
    from shoal.api.display.board import Board
    from shoal.cli.display import display_for, greet
    from shoal.cli.stopping import Stopping

    info = session.store.info()
    board = Board.of(info, session.job.total())
    display = display_for(board)
    session.watch(display)
    gc.enable()
    with Stopping(session, board, as_json=as_json):
        greet(info, board)
        try:
            summary = session.drive()
        finally:
            display.close()
    from shoal.cli import ending

    return ending.tell(summary, as_json)
