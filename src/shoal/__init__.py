"""Shoal runs machine-learning work on whatever machines you have. This is all of its Python API.

Everything is loaded when it is first used, so that `import shoal` in a trial or a script costs next to nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shoal.api.handle import Run
    from shoal.api.running import check, plan, run, start, stop
    from shoal.api.running import open_run as open  # noqa: A004 - as `shoal.open`, which is what people type
    from shoal.api.running import resume_run as resume
    from shoal.api.summary import Summary
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
    **dict.fromkeys(("check", "plan", "run", "start", "stop"), "shoal.api.running"),
    "Run": "shoal.api.handle",
    "Summary": "shoal.api.summary",
    "open": "shoal.api.running",
    "report": "shoal.engine.workers.reporting",
    "resume": "shoal.api.running",
}
_NAMES_THERE = {"open": "open_run", "resume": "resume_run"}


class _Shoal(type(sys)):  # type: ignore[misc]
    """The package. `plan` and `report` are also names of layers, whose import must not hide the functions."""

    @property
    def plan(self) -> Any:
        return __getattr__("plan")

    @plan.setter
    def plan(self, layer: Any) -> None:
        """The import system puts a subpackage here; it finds it again without."""

    @property
    def report(self) -> Any:
        return __getattr__("report")

    @report.setter
    def report(self, layer: Any) -> None:
        """As with `plan`."""

    def __reduce__(self) -> Any:
        """Functions that use `shoal` are sent to workers by value: there it is imported, like any module."""
        from importlib import import_module

        return import_module, (__name__,)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), _NAMES_THERE.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)


sys.modules[__name__].__class__ = _Shoal
