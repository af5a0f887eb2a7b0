"""Which programs this machine can run, before anything is run."""

from __future__ import annotations

import os


def is_program(name: str, folder: str) -> bool:
    """Whether a command that starts with this name, run in `folder`, finds a program."""
    if os.sep in name:
        return _can_run(os.path.join(folder, name))
    path = os.environ.get("PATH", os.defpath)
    return any(_can_run(os.path.join(place, name)) for place in path.split(os.pathsep) if place)


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
