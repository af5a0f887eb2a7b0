"""A run on a terminal, redrawn in place by rich, which is loaded only once there is something to draw."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal.api.display import words
from shoal.api.display.board import Board
from shoal.shape.base import Ended, Progress
from shoal.units import format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

FIRST_S = 0.2
"""Before this nothing is drawn: starting trials comes first, and many runs are over by then."""
EVERY_S = 0.2
RUNNING_SHOWN = 8


class LiveDisplay:
    """On stderr. `keep` leaves the last picture where it is; otherwise it is wiped for what comes after."""

    def __init__(self, board: Board, *, keep: bool = False) -> None:
        self._board = board
        self._keep = keep
        self._live: Live | None = None
        self._next: float | None = None
        self._broken = False

    @property
    def drawing(self) -> bool:
        return self._live is not None

    def durable(self, ended: Sequence[Ended]) -> None:
        self._board.durable(ended)

    def moment(self, progress: Progress) -> None:
        self._board.moment(progress)
        if self._next is None:
            self._next = progress.now + FIRST_S
        elif progress.now >= self._next and not self._broken:
            self._next = progress.now + EVERY_S
            self._guarded(self._draw)

    def close(self) -> None:
        if self._live is not None and not self._broken:
            self._guarded(self._end)
        self._live = None
        self._broken = True

    def _guarded(self, action: Any) -> None:
        """A terminal that went away, or that rich cannot cope with, must not end a run."""
        try:
            action()
        except Exception:  # noqa: BLE001 - whatever it is, the run goes on without a picture
            self._broken = True

    def _draw(self) -> None:
        if self._live is None:
            self._live = _start(transient=not self._keep)
        self._live.update(picture(self._board), refresh=True)

    def _end(self) -> None:
        assert self._live is not None
        self._live.update(picture(self._board), refresh=True)
        self._live.stop()


def _start(*, transient: bool) -> Live:
    from rich.console import Console
    from rich.live import Live

    live = Live(
        console=Console(file=sys.stderr, highlight=False, soft_wrap=False),
        auto_refresh=False,
        transient=transient,
        redirect_stdout=sys.stdout.isatty(),
    )
    live.start()
    return live


def picture(board: Board) -> RenderableType:
    """The whole display as rich draws it."""
    from rich.console import Group

    parts: list[RenderableType] = [_bar(board), _running(board)]
    if board.failures:
        parts.append(_failures(board))
    if best := board.best_in_words():
        parts.append(_line("best", best, "green"))
    if board.note:
        parts.append(_line("", board.note, "yellow"))
    return Group(*parts)


def _bar(board: Board) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    for _ in range(3):
        grid.add_column(no_wrap=True, justify="right")
    share = board.share
    bar = ProgressBar(total=1.0 if share is not None else None, completed=share or 0.0, pulse=share is None)
    percent = "" if share is None else f"{int(share * 100)}%"
    grid.add_row(
        Text(board.run, "bold"), bar, Text(percent), Text(board.of_total), Text(board.pace(), "cyan")
    )
    return grid


def _running(board: Board) -> RenderableType:
    """Which trials run where, and for how long by now; and what did not simply get done."""
    from rich.table import Table
    from rich.text import Text

    progress = board.progress
    workers = progress.workers if progress is not None else 0
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    heading = f"{len(board.running)} running on {workers} worker{'' if workers == 1 else 's'}"
    others = board.others()
    lines: list[Any] = [Text.assemble(heading, (f", {others}" if others else "", "red"))]
    for entry in board.running[:RUNNING_SHOWN]:
        ran = format_seconds(max(0.0, progress.now - entry.since)) if progress is not None else ""
        params = Text(words.parameters(entry.item.params, 200), "dim")
        grid.add_row(Text(f"  {entry.item.id}"), Text(entry.node, "magenta"), Text(ran), params)
    more = len(board.running) - RUNNING_SHOWN
    if more > 0:
        grid.add_row(Text(f"  and {more} more"))
    if board.running:
        lines.append(grid)
    from rich.console import Group

    return Group(*lines)


def _failures(board: Board) -> RenderableType:
    from rich.console import Group

    return Group(
        *(
            _line("failed", f"{entry.item.id} on {entry.node}: {words.sentence(entry.outcome.error)}", "red")
            for entry in board.failures
        )
    )


def _line(label: str, text: str, style: str) -> RenderableType:
    from rich.text import Text

    line = Text(no_wrap=True, overflow="ellipsis")
    if label:
        line.append(f"{label} ", style)
        line.append(text)
    else:
        line.append(text, style)
    return line
