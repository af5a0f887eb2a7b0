"""`shoal.report`: how user code says how it is doing, from a function in a worker or from a script of its own.

A script reports by appending a line of JSON to the file named by SHOAL_REPORT, which any language can do.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from shoal.engine.workers.runner import Work
from shoal.model import DEPTH

REPORT_VARIABLE = "SHOAL_REPORT"
ATTEMPT_VARIABLE = "SHOAL_ATTEMPT"

_current: Work | None = None
POLL_S = 0.1
"""How often the file is looked at."""

Report = Callable[[Mapping[str, Any], int | None], None]
DIGITS = 308
"""Of an integer. One that is longer has no number near it that programs could compute with."""
SHOWN = 100
"""How much of what is no message is shown."""
COUNTS = 2**63
"""Integers of the record are below this."""
MOMENTS = 1e11
"""Seconds of the record are below this."""
_BEYOND = 10**DIGITS
_SIMPLE = (float, str, bool, type(None))


def set_current(work: Work | None) -> None:
    """Say which item this worker process is at. Called by the worker's harness only."""
    global _current
    _current = work


def report_directly() -> None:
    """Functions in this process, and what they start, report through it: there is no file to write to."""
    os.environ.pop(REPORT_VARIABLE, None)


def report(*, step: int | None = None, **metrics: Any) -> None:
    """Record metrics of the running item: `report(accuracy=0.9)`, or with `step=3` for a curve and for pruning.

    Later values of a metric replace earlier ones. Outside a run it does nothing, so a script also works by hand.
    """
    plain = plain_metrics(metrics)
    step = None if step is None else _whole(step)
    if _current is not None:
        _current.report(plain, step)
    elif path := os.environ.get(REPORT_VARIABLE):
        if (why := fault(plain)) is not None:
            raise TypeError(why)
        line = json.dumps([os.environ.get(ATTEMPT_VARIABLE, ""), step, plain]) + "\n"
        append(path, line.encode())


def append(path: str, line: bytes) -> None:
    """Add a line to a file that several processes write to: in one call, so that no line comes into another."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


class ReportFile:
    """A file that processes append reports to, a line each. Made empty; read by one process."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w+b")  # noqa: SIM115 - it has a `close` of its own
        self._rest = b""

    def read(self, fields: int) -> list[list[Any]]:
        """The lists of so many values that came since the last call, each with a step and metrics at its end.

        A line that is none is left out: any process may write to the file.
        """
        data = self._file.read()
        if not data:
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [found for line in lines if (found := _fields(line, fields)) is not None]

    def close(self) -> None:
        self._file.close()


def _fields(line: bytes, count: int) -> list[Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or len(found) != count or not isinstance(found[-1], dict):
        return None
    return [*found[:-2], found[-2] if is_step(found[-2]) else None, found[-1]]


def _whole(step: Any) -> int:
    """A step as a plain integer, also when it is NumPy's; raises TypeError where it is none that can be recorded."""
    try:
        found = int(step)
        if found == step and is_step(found):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"step is {step!r:.100}; expected a whole number")


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as JSON values; NumPy and tensor scalars become numbers. Raises TypeError for anything else."""
    return {str(name): _plain(name, value, DEPTH) for name, value in metrics.items()}


def _plain(name: object, value: Any, room: int) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value if type(value) in _EXACT else _plain_base(value)
    if not room:
        raise TypeError(f"metric {name!r:.100} is nested more than {DEPTH} deep: give it as text")
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return _plain(name, item(), room - 1)
        except (TypeError, ValueError):
            pass
    if isinstance(value, list | tuple):
        return [_plain(name, entry, room - 1) for entry in value]
    if isinstance(value, dict):
        return {str(key): _plain(key, entry, room - 1) for key, entry in value.items()}
    raise TypeError(
        f"metric {name!r} is a {type(value).__name__}; expected a number, a text or a list of them"
    )


_EXACT = (bool, int, float, str, type(None))


def _plain_base(value: Any) -> Any:
    """A subclass of a plain type (numpy.float64, an enum) as the plain type itself."""
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return base(value)
    return value


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


def fault(metrics: Mapping[str, Any]) -> str | None:
    """What of these metrics cannot be recorded, as a sentence; None where all of it can."""
    for name, value in metrics.items():
        if not name.isascii() and not _is_valid(name):
            return (
                f"the name of the metric {name!a:.{SHOWN}} is no valid text (half a surrogate pair is in it)"
            )
        if type(value) in _SIMPLE:
            continue
        if (why := _fault(value, DEPTH)) is not None:
            return f"metric {name!a:.{SHOWN}} {why}"
    return None


def _fault(value: Any, room: int) -> str | None:
    if isinstance(value, int) and not -_BEYOND < value < _BEYOND:
        return f"has an integer of more than {DIGITS} digits: give it as text"
    if not isinstance(value, dict | list | tuple):
        return None
    if not room:
        return f"is nested more than {DEPTH} deep: give it as text"
    for part in value.values() if isinstance(value, dict) else value:
        if type(part) not in _SIMPLE and (why := _fault(part, room - 1)) is not None:
            return why
    return None


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """The beginning of any value, as printable text."""
    try:
        return ascii(value)[:SHOWN]
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"


def is_step(step: object) -> bool:
    """Whether it is an integer that the record can hold."""
    return isinstance(step, int) and -COUNTS <= step < COUNTS


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < COUNTS


def is_moment(value: Any) -> bool:
    return type(value) in (float, int) and 0 <= value < MOMENTS


def is_text(value: Any) -> bool:
    return type(value) is str


def is_pairs(value: Any) -> bool:
    """Whether it is a list of lists of two counts each."""
    return type(value) is list and all(
        type(pair) is list and len(pair) == 2 and is_count(pair[0]) and is_count(pair[1]) for pair in value
    )
