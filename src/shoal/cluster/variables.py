"""The variables that tell Ray in this process how to show itself to a cluster. Set while a driver needs them."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock

_lock = Lock()
_before: list[dict[str, str | None]] = []
"""For each that joined and has not left: what it found. Ray has one cluster at a time, so all set the same."""


def set_for_ray(token_path: str) -> Callable[[], None]:
    """Set them; the last one that undoes it leaves the variables as the first one found them."""
    wanted = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": token_path,
        "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    }
    with _lock:
        found = {name: os.environ.get(name) for name in wanted}
        _before.append(_before[0] if _before else found)
        os.environ.update(wanted)
    undone: list[bool] = []

    def undo() -> None:
        with _lock:
            if undone:
                return
            undone.append(True)
            first = _before.pop()
            if not _before:
                _restore(first)

    return undo


def _restore(found: dict[str, str | None]) -> None:
    for name, value in found.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
