"""What this machine keeps of a cluster that it started: its place, token, nodes, and measured round trips."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.errors import ClusterError
from shoal.files import write_secret, write_text
from shoal.model import RoundTrip

STATE_FILE = "state.json"
TOKEN_FILE = "token"
KEY = "latency"
OLD_S = 3600.0
"""Round trips that were measured longer ago than this are measured again by whoever needs them."""


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


def remember(book: Book, answers: Mapping[str, Mapping[str, Any]], now_s: float) -> None:
    """What nodes answered, by host and location: it takes the place of what was measured to these locations before."""
    if not answers:
        return
    with book.change() as state:
        latency = state.setdefault(KEY, {})
        for host, found in answers.items():
            known = latency.setdefault(host, {})
            known.update({location: {**each, "measured_s": now_s} for location, each in found.items()})


def recall(book: Book, probes: Mapping[str, str]) -> dict[str, dict[str, RoundTrip]]:
    """By host and location; only what was measured to the very probes that the locations have now."""
    return {
        host: {
            location: RoundTrip(**each)
            for location, each in found.items()
            if location in probes and each["probe"] == probes[location]
        }
        for host, found in book.read().get(KEY, {}).items()
    }


def to_ask(
    hosts: Iterable[str],
    probes: Mapping[str, str],
    known: Mapping[str, Mapping[str, RoundTrip]],
    now_s: float,
) -> list[str]:
    """The hosts from which something was never measured, is too old, or had no answer when it was tried."""
    return [
        host
        for host in hosts
        if any(not _is_good(known.get(host, {}).get(location), now_s) for location in probes)
    ]


def _is_good(found: RoundTrip | None, now_s: float) -> bool:
    # A time that lies ahead is of a clock that was wrong then or is wrong now.
    return found is not None and found.minimum_s is not None and 0 <= now_s - found.measured_s <= OLD_S
