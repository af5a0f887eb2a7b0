"""What a person sees on stderr while `shoal run` works: a live picture on a terminal, else plain lines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from shoal import words
from shoal.api.display.board import Board
from shoal.cli.output import is_terminal, say
from shoal.work.kind import kind_of

if TYPE_CHECKING:
    from shoal.api.display import Display
    from shoal.store import RunInfo


def display_for(board: Board, *, live: bool = True) -> Display:
    """The display that suits stderr: a `live` one on a terminal, unless that is not wanted."""
    if live and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb":
        from shoal.api.display.live import LiveDisplay

        return LiveDisplay(board)
    from shoal.api.display.plain import PlainDisplay

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
