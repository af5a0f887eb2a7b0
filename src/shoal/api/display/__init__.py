"""Showing a run while it goes: live on a terminal, in place in a notebook, or as plain lines.

A display is a watcher; whoever made it also closes it. It never disturbs the run: what cannot be shown is not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.api.handle import Run
    from shoal.shape.base import Ended, Progress


class Display(Protocol):
    """A watcher with an end."""

    def durable(self, ended: Sequence[Ended]) -> None: ...

    def moment(self, progress: Progress) -> None: ...

    def close(self) -> None:
        """Show how it ended, and let go of the terminal. May be called twice."""


class Silent:
    """For programs that nobody watches."""

    def durable(self, ended: Sequence[Ended]) -> None: ...

    def moment(self, progress: Progress) -> None: ...

    def close(self) -> None: ...


def display_for_python(handle: Run) -> Display:
    """What `shoal.run` shows: in a notebook below its cell, in a script on the terminal, elsewhere nothing."""
    from shoal.api.display.board import Board
    from shoal.api.inference import inputs_before
    from shoal.api.session import read_only

    notebook = in_notebook()
    if not notebook and not _is_terminal():
        return Silent()
    with read_only(handle.folder) as store:
        info = store.info()
        board = Board.of(info, info.total, inputs_before(store, info))
    if notebook:
        from shoal.api.display.notebook import NotebookDisplay

        return NotebookDisplay(board)
    from shoal.api.display.live import LiveDisplay

    return LiveDisplay(board, keep=True)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
