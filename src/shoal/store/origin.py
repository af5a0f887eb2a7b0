"""Where a run's folder came from. What was brought back from a storage, somebody else may have written there.

A seal, made with a key of this user's over all that says what the run starts, tells one's own runs from others. It says
nothing of the rest: who can write to a storage can change parameters, results and checkpoints there.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Sequence

from shoal.files import write_text
from shoal.store.run import RunStore

_SEAL = "seal"
_ORIGIN = "origin"


def mark(folder: str, url: str) -> None:
    """Write down that this folder was brought back from there."""
    write_text(os.path.join(folder, _ORIGIN), url)


def seal(store: RunStore, key: bytes, files: Sequence[str]) -> None:
    """This user starts what is there now: the spec, the document, and these files of the folder."""
    write_text(os.path.join(store.folder, _SEAL), _digest(store, key, files))


def source(folder: str) -> str | None:
    """The storage that this folder was brought back from; None for one that was made here."""
    return _text(os.path.join(folder, _ORIGIN))


def is_sealed(store: RunStore, key: bytes, files: Sequence[str]) -> bool:
    """Whether this user sealed it, and it is what it was then."""
    found = _text(os.path.join(store.folder, _SEAL)) or ""
    return hmac.compare_digest(found.encode(), _digest(store, key, files).encode())


def _digest(store: RunStore, key: bytes, files: Sequence[str]) -> str:
    parts = [
        store.run.encode(),
        store.spec_text.encode("utf-8", "replace"),
        json.dumps(store.document).encode(),
    ]
    for name in files:
        try:
            with open(os.path.join(store.folder, name), "rb") as file:
                parts.append(file.read())
        except FileNotFoundError:
            parts.append(b"")
    made = hmac.new(key, digestmod="sha256")
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except FileNotFoundError:
        return None
