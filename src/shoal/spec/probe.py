"""What a round trip is measured to: `gateway.home:22`, or only a host. How it is written, not how it is measured."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_IPV6 = r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
PATTERN = rf"(?:{_NAME}|{_IPV6})(?::(?:{_PORT}))?"
EXPECTED = "what to measure the round trip to: a host and a port such as gateway.home:22, or only a host"


class Probe(NamedTuple):
    """A port is connected to; a host without one is sent an echo request."""

    host: str
    port: int | None = None


def parse_probe(text: str) -> Probe:
    """An IPv6 address stands in brackets: `[2001:db8::1]:22`. What cannot be read is a ValueError with a sentence."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"expected {EXPECTED}, found {text!r}")
    if text.endswith("]"):
        return Probe(text[1:-1])
    host, _, port = text.rpartition(":")
    return Probe(host.strip("[]"), int(port)) if host else Probe(text)
