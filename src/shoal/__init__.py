"""Shoal runs machine-learning work on whatever machines you have. This is all of its Python API.

Everything is loaded when it is first used, so that `import shoal` in a trial or a script costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shoal.api.handle import Run
    from shoal.api.runs import check, plan, run, start, stop
    from shoal.api.runs import open_run as open  # noqa: A004 - as `shoal.open`, which is what people type
    from shoal.api.runs import resume_run as resume
    from shoal.engine.workers.reporting import report
    from shoal.errors import (
        CannotPlace,
        ClusterLost,
        EngineError,
        NotFound,
        RunLocked,
        ShoalError,
        SpecError,
        Stopped,
        StoreError,
    )
    from shoal.model.record import Summary

__version__ = "0.2.0"

__all__ = [
    "CannotPlace",
    "ClusterLost",
    "EngineError",
    "NotFound",
    "Run",
    "RunLocked",
    "ShoalError",
    "SpecError",
    "Stopped",
    "StoreError",
    "Summary",
    "__version__",
    "check",
    "open",
    "plan",
    "report",
    "resume",
    "run",
    "start",
    "stop",
]

_ERRORS = (
    "CannotPlace",
    "ClusterLost",
    "EngineError",
    "NotFound",
    "RunLocked",
    "ShoalError",
    "SpecError",
    "Stopped",
    "StoreError",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "shoal.errors"),
    **dict.fromkeys(("check", "plan", "run", "start", "stop"), "shoal.api.runs"),
    "Run": "shoal.api.handle",
    "Summary": "shoal.model.record",
    "open": "shoal.api.runs",
    "report": "shoal.engine.workers.reporting",
    "resume": "shoal.api.runs",
}
_NAMES_THERE = {"open": "open_run", "resume": "resume_run"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), _NAMES_THERE.get(name, name))
    if not isinstance(found, type):  # Functions that are sent by value name it so, wherever it is kept.
        found.__module__, found.__qualname__ = __name__, name
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
