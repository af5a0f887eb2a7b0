"""How a worker is made, as a value: an import path and arguments. It can cross a wire, and `sim` can model it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Factory(NamedTuple):
    """`target` is `module:name`; calling it in the worker with `arguments` gives the worker's runner.

    Arguments are JSON values, so that any transport can carry them.
    """

    target: str
    arguments: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    """Environment variables that the worker sets before anything is imported."""
    folder: str = ""
    """Where the worker runs, and what it may import from, after the standard library."""
    blob: str = ""
    """A file of the driver's machine. Its content is one more argument, `blob`, for what is large."""
