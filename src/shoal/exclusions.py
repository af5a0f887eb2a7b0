"""What stays at home when a workload's folder travels: runs, environments, caches, credentials, and what
`.shoalignore` names. What it names after a `!` travels."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from typing import NamedTuple

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
CREDENTIALS = (
    *(
        ".env",
        ".env.*",
        ".netrc",
        ".pgpass",
        ".pypirc",
        ".npmrc",
        ".git-credentials",
        ".vault-token",
        ".boto",
    ),
    *(".aws", ".azure", ".docker", ".gcloud", ".gnupg", ".kube", ".ssh"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx"),
    *("credentials*.json", "client_secret*.json", "service-account*.json", "kaggle.json"),
)
"""Names of files and folders that hold passwords and keys, as the programs that use them call them."""
IGNORE_FILE = ".shoalignore"


class Travelling(NamedTuple):
    """The files of a folder that travel, sorted, and what stays only because it looks like credentials."""

    files: list[str]
    credentials: list[str]

    def said(self) -> str | None:
        """The sentence about the credentials; None where there are none."""
        if not self.credentials:
            return None
        names = ", ".join(self.credentials[:5]) + (", ..." if len(self.credentials) > 5 else "")
        return (
            f"Left out, as they may hold credentials: {names}. A line !NAME in {IGNORE_FILE} takes one along."
        )


def left_out(folder: str) -> list[str]:
    """Patterns for names and paths, a line of `.shoalignore` each after those that always count.

    The last that matches decides; one with a `!` before it says that what it matches travels.
    """
    try:
        with open(os.path.join(folder, IGNORE_FILE), encoding="utf-8") as file:
            lines = [line.strip().rstrip("/") for line in file]
    except OSError:
        lines = []
    return [*LEFT_OUT, *CREDENTIALS, *(line for line in lines if line and not line.startswith("#"))]


def travelling(folder: str) -> Travelling:
    """What of this folder travels. Links are named, not followed."""
    found = Travelling([], [])
    _look(folder, "", left_out(folder), found)
    return Travelling(sorted(found.files), sorted(found.credentials))


def _look(folder: str, below: str, patterns: Sequence[str], found: Travelling) -> None:
    with os.scandir(os.path.join(folder, below)) as entries:
        for entry in entries:
            path = os.path.join(below, entry.name)
            reason = _reason(path, patterns)
            if reason in CREDENTIALS:
                found.credentials.append(path)
            elif reason is not None:
                continue
            elif entry.is_dir(follow_symlinks=False):
                _look(folder, path, patterns, found)
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                found.files.append(path)


def _reason(path: str, patterns: Sequence[str]) -> str | None:
    """The pattern by which this stays at home; None where it travels."""
    name = os.path.basename(path)
    for pattern in reversed(patterns):
        plain = pattern.removeprefix("!")
        if fnmatch.fnmatchcase(name, plain) or fnmatch.fnmatchcase(path, plain):
            return pattern if plain == pattern else None
    return None
