"""Ctrl-C and SIGTERM while a run is driven: the first stops it cleanly, the second kills it at once."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from shoal.cli.failing import STOPPED

if TYPE_CHECKING:
    from shoal.api.display.board import Board
    from shoal.api.session import Session

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ECHO_S = 0.5
"""Programs that start others often pass on a signal that the other had already: that is not a second one."""
SHOW_CURSOR = b"\x1b[?25h"
STOPPING = "Stopping: what runs is asked to end. Ctrl-C again kills it at once."


class Stopping:
    """In this `with`, signals stop the session. To be used in the main thread."""

    def __init__(self, session: Session, board: Board, *, as_json: bool) -> None:
        self._session = session
        self._board = board
        self._as_json = as_json
        self._first: float | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        self._handlers = {number: signal.signal(number, self._heard) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            self._board.note = STOPPING
            self._session.stop()
        elif now - self._first > ECHO_S:
            self._kill()

    def _kill(self) -> None:
        """End here and now: workers die with their driver, and what is recorded stays.

        Straight to the file descriptors, because this may have interrupted a write to the same stream.
        """
        run = self._board.run
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
