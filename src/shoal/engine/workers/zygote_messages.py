"""The messages between a driver and its zygote, and their form as JSON lines. Those of workers are in `messages`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class Spawn(NamedTuple):
    """Fork a worker; its end of a socket comes along."""

    worker: int
    module: str
    """Of its factory."""


class KillWorker(NamedTuple):
    worker: int


class Ping(NamedTuple):
    number: int


Request = Spawn | KillWorker | Ping


class Pong(NamedTuple):
    number: int
    """Of the ping that this answers."""


class Exited(NamedTuple):
    """A worker is gone."""

    worker: int
    status: int | None
    """None where it is unknown."""
    why: str | None
    """Where the status does not say it."""
    left: Sequence[str] = ()
    """Sentences about processes of earlier workers that could not be killed."""


Answer = Pong | Exited
_TYPES: dict[str, Any] = {each.__name__: each for each in (Spawn, KillWorker, Ping, Pong, Exited)}


def encode(message: Request | Answer) -> bytes:
    return json.dumps((type(message).__name__, *message)).encode() + b"\n"


def decode(line: bytes) -> Any:
    """A message of the type that was encoded: both ends are Shoal's own."""
    name, *fields = json.loads(line)
    return _TYPES[name]._make(fields)
