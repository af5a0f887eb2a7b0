"""The public Python API, for people and for the command line. Knows all kinds; talks to nobody."""

from __future__ import annotations

from shoal.api.handle import Run
from shoal.api.reading import get, logs, remove, runs, show
from shoal.api.running import check, plan, resume, run, start, stop
from shoal.api.summary import Summary

__all__ = [
    "Run",
    "Summary",
    "check",
    "get",
    "logs",
    "plan",
    "remove",
    "resume",
    "run",
    "runs",
    "show",
    "start",
    "stop",
]
