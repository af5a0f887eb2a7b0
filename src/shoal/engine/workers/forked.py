"""Reports of processes that a function forked: each appends to a file, and a thread of their parent passes them on.

Only the worker's own process writes to its socket: what several write there would get mixed up. File and thread are
made when user code forks, so that items which do not fork pay nothing.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from shoal.engine.workers.reporting import ReportFile, append

POLL_S = 0.1
"""How often the file is looked at."""

Report = Callable[[Mapping[str, Any], int | None], None]


class ForkedReports:
    """Of one worker, in a file at `path`; `begin` and `end` are called around each item."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = os.getpid()
        self._item = (0, 0)
        self._report: Report | None = None
        self._file: ReportFile | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        os.register_at_fork(before=self._open, after_in_parent=self._watch)

    def begin(self, seq: int, attempt: int, report: Report) -> None:
        self._item, self._report = (seq, attempt), report

    def end(self) -> None:
        """Pass on what is left. Raises what a report raised in the thread: `Failed`, where it cannot be recorded."""
        if os.getpid() != self._process:
            return
        report, self._report = self._report, None
        if self._thread is not None:
            self._over.set()
            self._thread.join()
        if self._file is not None and report is not None:
            self._pass_on(self._file, report)
            self._file.close()
        self._file = self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def tell(self, seq: int, attempt: int, metrics: Mapping[str, Any], step: int | None) -> None:
        """Called in a child instead of `report`."""
        append(self._path, json.dumps([seq, attempt, step, metrics]).encode() + b"\n")

    def _open(self) -> None:
        if self._report is not None and self._file is None and os.getpid() == self._process:
            self._file = ReportFile(self._path)

    def _watch(self) -> None:
        if os.getpid() != self._process or self._report is None or self._file is None:
            return
        if self._thread is None:
            self._over.clear()
            arguments = (self._file, self._report)
            self._thread = threading.Thread(target=self._follow, args=arguments, daemon=True)
            self._thread.start()

    def _follow(self, file: ReportFile, report: Report) -> None:
        while not self._over.wait(POLL_S):
            self._pass_on(file, report)

    def _pass_on(self, file: ReportFile, report: Report) -> None:
        try:
            for seq, attempt, step, metrics in file.read(4):
                if (
                    seq,
                    attempt,
                ) == self._item:  # Else it comes from a child that an earlier item left behind.
                    report(metrics, step)
        except BaseException as error:  # noqa: BLE001 - the main thread decides what it means for the item
            self._error = self._error or error
