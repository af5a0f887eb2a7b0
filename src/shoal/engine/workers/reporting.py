"""`shoal.report`: how user code says how it is doing, from a function in a worker or from a script of its own.

A script reports by appending a line of JSON to the file named by SHOAL_REPORT, which any language can do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from shoal.engine.workers.recordable import fault, is_step
from shoal.engine.workers.runner import Work
from shoal.model import DEPTH

REPORT_VARIABLE = "SHOAL_REPORT"
ATTEMPT_VARIABLE = "SHOAL_ATTEMPT"

_current: Work | None = None


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
