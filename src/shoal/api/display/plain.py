"""A run as plain lines, for logs and pipes: how far it is every few seconds, and each failure at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.api.display import words
from shoal.api.display.board import Board
from shoal.shape.base import Ended, Progress
from shoal.units import format_seconds

EVERY_S = 5.0
FAILURES_SAID = 10
"""Failures that get a line of their own between two lines of progress; the others are counted."""


class PlainDisplay:
    """Gives lines to `say`. When that fails, nobody listens any more and it falls silent."""

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
