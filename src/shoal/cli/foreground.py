"""A run in this terminal until its end: its display, Ctrl-C and other signals, what came of it. Needs no click."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.api.display.board import Board
from shoal.cli.dispatch import STOPPED
from shoal.cli.output import is_terminal, say
from shoal.units import format_seconds
from shoal.work.kind import kind_of

if TYPE_CHECKING:
    from shoal.api.display import Display
    from shoal.api.machines import Machines
    from shoal.api.session import Session
    from shoal.api.workloads import Prepared
    from shoal.model.record import Summary
    from shoal.shape.base import Ended, Progress
    from shoal.store import RunInfo


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_S = 0.5
"""Programs that start others often pass on a signal that the other had already: that is not a second one."""
EVERY_S = 5.0
FAILURES_SAID = 10
"""Failures that get a line of their own between two lines of progress; the others are counted."""
SHOW_CURSOR = b"\x1b[?25h"
STOPPING = "Stopping: what runs is asked to end. Ctrl-C again kills it at once."


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
    from shoal.cluster.this_machine import Here

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
    from shoal.api.workloads import announcement, equip

    if where.embedded:
        where.ensure_room(prepared.job.asks())
        news = announcement(prepared.job)
        if news is not None:
            _say(news)
        equip(prepared.job, where)


def resume(run: str, failed: bool, cluster: str | None, take_over: bool, trust: bool, as_json: bool) -> int:
    """Go on with a run; the exit code."""
    from shoal.api import runs
    from shoal.model.record import Summary

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


def display_for(board: Board, *, live: bool = True) -> Display:
    """The display that suits stderr: a `live` one on a terminal, unless that is not wanted."""
    if live and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb":
        from shoal.api.display.live import LiveDisplay

        return LiveDisplay(board)
    return PlainDisplay(board, say)


def greet(info: RunInfo, board: Board) -> None:
    """The first line: which run this is, how much there is to do, and how long it should take."""
    kind, total = kind_of(info.kind), board.total
    count = "" if total is None else f"{total} "
    parts = [f"{board.run}: {kind.noun if kind.counted_by else count + words.named(total, kind.unit)}"]
    if board.ended:
        of = kind.item if kind.counted_by else ""  # It is items that are counted here.
        parts.append(f"{words.counts(board.counts, of=of)} before")
    if info.predicted_seconds is not None and not board.ended:
        parts.append(f"predicted {words.prediction(info.predicted_seconds)}")
    say(", ".join(parts))


class Stopping:
    """In this `with`, signals stop the session: the one that `attach` names, as soon as it does.

    To be used in the main thread, from before the run is made: a run must not be left behind half made.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._session: Session | None = None
        self._board: Board | None = None
        self._as_json = as_json
        self._first: float | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # As nohup leaves SIGHUP.
                self._handlers[number] = signal.signal(number, self._heard)
        return self

    def attach(self, session: Session, board: Board) -> None:
        """From here on there is something to stop; a signal that came before counts."""
        self._session, self._board = session, board
        if self._first is not None:
            self._stop(session, board)

    def _stop(self, session: Session, board: Board) -> None:
        board.note = STOPPING
        session.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            if self._session is not None and self._board is not None:
                self._stop(self._session, self._board)
        elif now - self._first > ECHO_S:
            self._kill()

    def _kill(self) -> None:
        """End here and now: workers die with their driver, and what is recorded stays.

        Straight to the file descriptors, because this may have interrupted a write to the same stream.
        """
        run = self._board.run if self._board is not None else "last"
        cursor = SHOW_CURSOR if os.isatty(2) else b""
        _write(2, cursor + f"\nKilled. Go on with: shoal resume {run}\n".encode())
        if self._as_json:
            hint = f"shoal resume {run}"
            _write(1, f'{{"error": "Run {run} was killed by the user.", "hint": "{hint}"}}\n'.encode())
        os._exit(STOPPED)


def _write(descriptor: int, data: bytes) -> None:
    try:
        os.write(descriptor, data)
    except OSError:
        return


class PlainDisplay:
    """A run as lines for logs and pipes: how far it is every few seconds, and each failure at once.

    Gives lines to `say`. When that fails, nobody listens any more and it falls silent.
    """

    def __init__(self, board: Board, say: Callable[[str], None]) -> None:
        self._board = board
        self._say = say
        self._next: float | None = None
        self._unsaid = 0
        self._said = 0
        self._noted: str | None = None
        self._mute = False

    def durable(self, ended: Sequence[Ended]) -> None:
        self._board.durable(ended)
        for entry in ended:
            if entry.outcome.state == "failed":
                self._failed(entry)

    def moment(self, progress: Progress) -> None:
        self._board.moment(progress)
        if self._board.note != self._noted:
            self._noted = self._board.note
            self._line(self._noted or "")
        if self._next is None:
            self._next = progress.now + EVERY_S
        elif progress.now >= self._next:
            self._next = progress.now + EVERY_S
            self._line(self._board.how_far())
            self._count_unsaid()

    def close(self) -> None:
        self._count_unsaid()

    def _failed(self, entry: Ended) -> None:
        if self._said >= FAILURES_SAID:
            self._unsaid += 1
            return
        self._said += 1
        after = format_seconds(entry.outcome.seconds)
        self._line(
            f"failed: {entry.item.id} on {entry.node} after {after}: {words.sentence(entry.outcome.error)}"
        )

    def _count_unsaid(self) -> None:
        if self._unsaid:
            self._line(f"failed: {self._unsaid} more")
        self._said = self._unsaid = 0

    def _line(self, text: str) -> None:
        if self._mute:
            return
        try:
            self._say(text)
        except (OSError, ValueError):
            self._mute = True
