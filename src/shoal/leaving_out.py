"""What stays at home when a workload's folder travels: runs, environments, caches, what `.shoalignore` names."""

from __future__ import annotations

import os

LEFT_OUT = (
    ".shoal",
    ".git",
    ".venv",
    "venv",
    "env",
    "node_modules",
    "__pycache__",
    "*.pyc",
    ".*_cache",
    ".ipynb_checkpoints",
)
IGNORE_FILE = ".shoalignore"


def left_out(folder: str) -> list[str]:
    """Patterns for names and paths, a line of `.shoalignore` each after those that always count."""
    try:
        with open(os.path.join(folder, IGNORE_FILE), encoding="utf-8") as file:
            lines = [line.strip().rstrip("/") for line in file]
    except OSError:
        lines = []
    return [*LEFT_OUT, *(line for line in lines if line and not line.startswith("#"))]
