"""Local files that only their owner may read, from the first moment on."""

from __future__ import annotations

import os
from collections.abc import Mapping


def write_secret(path: str, text: str) -> None:
    """Write a whole file that nobody else can read, whatever was there before. A link is not followed."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)


def user_key(environ: Mapping[str, str]) -> bytes:
    """A key of this user's on this machine, made with the first call. It never travels."""
    from shoal.files.disk import make_private
    from shoal.files.local import LocalStorage

    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    storage = LocalStorage(make_private(os.path.join(state, "shoal", "key")))
    if not storage.exists("key"):
        storage.write_new("key", os.urandom(32))
    return storage.read("key")
