"""A run in a notebook: one output below the cell, changed in place while the run goes."""

from __future__ import annotations

import contextvars
import html
from collections.abc import Sequence
from typing import Any

from shoal.api.display import words
from shoal.api.display.board import Board
from shoal.shape.base import Ended, Progress
from shoal.units import format_seconds

EVERY_S = 0.5
RUNNING_SHOWN = 8
_BAR = (
    '<div style="width:100%;max-width:40em;height:0.6em;border-radius:0.3em;background:#8883;overflow:hidden">'
    '<div style="width:{share:.1f}%;height:100%;background:#2a8"></div></div>'
)


class NotebookDisplay:
    """Made in the thread of the cell, changed from the driver's: it remembers which cell it belongs to."""

    def __init__(self, board: Board) -> None:
        from IPython.display import display

        self._board = board
        self._next: float | None = None
        self._context = contextvars.copy_context()
        self._output: Any = display(self._picture(), raw=True, display_id=True)

    def durable(self, ended: Sequence[Ended]) -> None:
        self._board.durable(ended)

    def moment(self, progress: Progress) -> None:
        self._board.moment(progress)
        if self._next is None or progress.now >= self._next or self._board.share == 1.0:
            self._next = progress.now + EVERY_S
            self._update()

    def close(self) -> None:
        self._update()

    def _update(self) -> None:
        """A kernel that lost its front end must not end a run."""
        if self._output is None:
            return
        try:
            self._context.run(self._output.update, self._picture(), raw=True)
        except Exception:  # noqa: BLE001 - whatever it is, the run goes on without a picture
            self._output = None

    def _picture(self) -> dict[str, str]:
        text = f"{self._board.run}: {self._board.how_far()}"
        return {"text/plain": text, "text/html": as_html(self._board)}


def as_html(board: Board) -> str:
    """The board as a fragment of a page. Everything that came from outside is escaped."""
    parts = [f"<b>{html.escape(board.run)}</b> {board.of_total}"]
    parts += [html.escape(part) for part in (board.others(), board.pace()) if part]
    lines = [" &middot; ".join(parts)]
    if board.share is not None:
        lines.append(_BAR.format(share=100 * board.share))
    now = board.progress.now if board.progress is not None else 0.0
    for entry in board.running[:RUNNING_SHOWN]:
        ran = format_seconds(max(0.0, now - entry.since))
        text = f"{entry.item.id} on {entry.node}, {ran}: {words.parameters(entry.item.params)}"
        lines.append(f"<small>{html.escape(text)}</small>")
    if len(board.running) > RUNNING_SHOWN:
        lines.append(f"<small>and {len(board.running) - RUNNING_SHOWN} more</small>")
    for ended in board.failures:
        text = f"failed: {ended.item.id} on {ended.node}: {words.sentence(ended.outcome.error)}"
        lines.append(f'<span style="color:#c33">{html.escape(text)}</span>')
    if best := board.best_in_words():
        lines.append(f"best: {html.escape(best)}")
    return '<div style="line-height:1.5">' + "<br>".join(lines) + "</div>"
