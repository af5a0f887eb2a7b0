"""`shoal.report`: how user code says how it is doing, from a function in a worker or from a script of its own.

A script reports by appending a line of JSON to the file named by SHOAL_REPORT, which any language can do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from shoal.engine.workers.runner import Work

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
        line = json.dumps([os.environ.get(ATTEMPT_VARIABLE, ""), step, plain]) + "\n"
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)


def _whole(step: Any) -> int:
    """A step as a plain integer, also when it is NumPy's; raises TypeError where it is none that can be recorded."""
    try:
        found = int(step)
        if found == step and is_step(found):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"step is {step!r:.100}; expected a whole number")


def is_step(step: object) -> bool:
    """Whether it is an integer that the record can hold."""
    return isinstance(step, int) and -(2**63) <= step < 2**63


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as JSON values; NumPy and tensor scalars become numbers. Raises TypeError for anything else."""
    return {str(name): _plain(name, value) for name, value in metrics.items()}


def _plain(name: object, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value if type(value) in _EXACT else _plain_base(value)
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return _plain(name, item())
        except (TypeError, ValueError):
            pass
    if isinstance(value, list | tuple):
        return [_plain(name, entry) for entry in value]
    if isinstance(value, dict):
        return {str(key): _plain(key, entry) for key, entry in value.items()}
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
