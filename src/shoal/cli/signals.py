"""Ctrl-C, SIGTERM and SIGHUP while a run is driven: the first stops it cleanly, the second kills it at once."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from shoal.cli.failures import STOPPED

if TYPE_CHECKING:
    from shoal.api.display.board import Board
    from shoal.api.session import Session

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_S = 0.5
"""Programs that start others often pass on a signal that the other had already: that is not a second one."""
SHOW_CURSOR = b"\x1b[?25h"
STOPPING = "Stopping: what runs is asked to end. Ctrl-C again kills it at once."


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
