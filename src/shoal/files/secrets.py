"""Local files that only their owner may read, from the first moment on."""

from __future__ import annotations

import os


def write_secret(path: str, text: str) -> None:
    """Write a whole file that nobody else can read, whatever was there before. A link is not followed."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
