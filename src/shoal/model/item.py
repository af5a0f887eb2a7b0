"""The unit of work that is done, retried and recorded, how an attempt at it ended, and digests of texts."""

from __future__ import annotations

import json.encoder
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL: 2 ms that every start would pay.
except ImportError:
    from hashlib import blake2b


HIDDEN = "shoal:"
"""Parameters and metrics whose names begin so are recorded and sent; they are no columns, and teach nothing."""
DEPTH = 100
"""How deep lists and dicts in a metric may be nested: deeper ones would be more than programs can go through."""
DIGEST_BYTES = 8


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters or metrics that people see."""
    return {name: value for name, value in values.items() if not name.startswith(HIDDEN)}


class Item(NamedTuple):
    """One trial, step, rank or list of inputs."""

    seq: int
    """Position in the run, from 1; the key under which events speak of it."""
    id: str
    """The name people see; a safe file name."""
    params: Mapping[str, Any]
    """Typed values: None, bool, int, float, str, or lists and dicts of these."""
    texts: Mapping[str, str] | None = None
    """Exact text of those values whose text cannot be had from the value (`0.10`, `007`)."""
    content: str = ""
    """Digest of the parameters: equal items have equal content, in this run and in later ones."""
    occurrence: int = 0
    """Which of the items with the same content this is, from 0."""
    attempt: int = 0
    """How often it was handed out before."""
    used: int = 0
    """How many of those attempts count against `retries`."""

    @property
    def checkpoint(self) -> str:
        """Name of its checkpoint: by id and content both, so that no other item ever finds it. A safe file name."""
        return f"{self.id}-{self.content}" if self.content else self.id


class LogSlice(NamedTuple):
    """Which part of a worker's log an item wrote. `end` is None while it runs."""

    file: str
    start: int
    end: int | None = None


class Outcome(NamedTuple):
    """The end of one attempt. `state` is an `ItemState` that is final."""

    state: str
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    seconds: float = 0.0
    log: LogSlice | None = None
    kept: bool = False
    """Whether the item left something in its folder."""


def encoder(default: Callable[[Any], Any] | None = None, *, skipkeys: bool = False) -> Callable[[Any], str]:
    """A function from values to compact text. It looks for no value that contains itself.

    `default` gives the JSON value of what is none; with `skipkeys` keys that cannot be one are left out.
    """
    plain = json.JSONEncoder(separators=(",", ":"), default=default, skipkeys=skipkeys, check_circular=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    text = json.encoder.encode_basestring_ascii
    try:
        chunks = make(None, plain.default, text, None, ":", ",", False, skipkeys, True)
        if "".join(chunks({"a": [1, "é"]}, 0)) == '{"a":[1,"\\u00e9"]}':
            return lambda values: "".join(chunks(values, 0))
    except TypeError:
        pass
    return plain.encode


def digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()
