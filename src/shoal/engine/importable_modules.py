"""Which modules this machine can import, before anything is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec


def not_importable(modules: Iterable[str], folders: Sequence[str] = ()) -> list[str]:
    """Which of these top-level modules are found neither in `folders` nor where this process finds its own."""
    return [name for name in modules if not (_in_folders(name, folders) or _here(name))]


def _in_folders(name: str, folders: Sequence[str]) -> bool:
    return bool(folders) and PathFinder.find_spec(name, list(folders)) is not None


def _here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules
