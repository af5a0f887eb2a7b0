"""What this machine keeps of a cluster that it started: where it is, its token, what its nodes have, when they came.

In a folder of the user's own, not of a project: a cluster file may be used from several.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.errors import ClusterError
from shoal.files import write_secret, write_text

STATE_FILE = "state.json"
TOKEN_FILE = "token"


class Book:
    """The book on one cluster file. Every change is made under a lock, and is on disk when `change` is left."""

    def __init__(self, name: str, file: str, environment: Mapping[str, str] | None = None) -> None:
        self.file = os.path.realpath(file)
        digest = hashlib.blake2b(os.fsencode(self.file), digest_size=4).hexdigest()
        self.folder = os.path.join(
            _base(os.environ if environment is None else environment), f"{name}-{digest}"
        )
        self._name = name

    def read(self) -> dict[str, Any]:
        """What is known; empty for a cluster that is not up."""
        try:
            with open(os.path.join(self.folder, STATE_FILE), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """What is known, to be changed. Others wait meanwhile, so nothing slow may happen."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            yield state
            write_text(os.path.join(self.folder, STATE_FILE), json.dumps(state, indent=1), durable=False)

    def open(self) -> dict[str, Any]:
        """What is known; begun where there was nothing, with an id and a token of its own."""
        with self.change() as state:
            if "id" in state and not os.path.exists(self.token_path):
                raise ClusterError(
                    f"The token of {self._name} is gone: {self.token_path}.",
                    hint="Put it back; or end the cluster with `shoal cluster down`, and bring it up again.",
                )
            state.setdefault("file", self.file)
            state.setdefault("id", f"{self._name}-{secrets.token_hex(4)}")
            state.setdefault("hosts", {})
            if not os.path.exists(self.token_path):
                write_secret(self.token_path, secrets.token_hex(32))
            return state

    @property
    def token_path(self) -> str:
        return os.path.join(self.folder, TOKEN_FILE)

    def token(self) -> str:
        with open(self.token_path, encoding="ascii") as file:
            return file.read().strip()

    def note(self, host: str, **facts: Any) -> None:
        """Something about one host."""
        with self.change() as state:
            state.setdefault("hosts", {}).setdefault(host, {}).update(facts)

    def close(self) -> None:
        """Forget the cluster. What its nodes had and how far they are from where is worth keeping."""
        with self.change() as state:
            kept: dict[str, Any] = {name: state[name] for name in ("inventory", "latency") if name in state}
            state.clear()
            state.update(kept)
        if os.path.exists(self.token_path):
            os.unlink(self.token_path)
        if not kept:
            shutil.rmtree(self.folder, ignore_errors=True)


def _base(environment: Mapping[str, str]) -> str:
    state = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "shoal", "clusters")
