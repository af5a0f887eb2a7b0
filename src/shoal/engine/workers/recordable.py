"""Which values a driver can record: checks of metrics and of the fields of messages. Knows no message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.model import DEPTH

DIGITS = 308
"""Of an integer. One that is longer has no number near it that programs could compute with."""
SHOWN = 100
"""How much of what is no message is shown."""
COUNTS = 2**63
"""Integers of the record are below this."""
MOMENTS = 1e11
"""Seconds of the record are below this."""
_BEYOND = 10**DIGITS
_SIMPLE = (float, str, bool, type(None))


def fault(metrics: Mapping[str, Any]) -> str | None:
    """What of these metrics cannot be recorded, as a sentence; None where all of it can."""
    for name, value in metrics.items():
        if not name.isascii() and not _is_valid(name):
            return (
                f"the name of the metric {name!a:.{SHOWN}} is no valid text (half a surrogate pair is in it)"
            )
        if type(value) in _SIMPLE:
            continue
        if (why := _fault(value, DEPTH)) is not None:
            return f"metric {name!a:.{SHOWN}} {why}"
    return None


def _fault(value: Any, room: int) -> str | None:
    if isinstance(value, int) and not -_BEYOND < value < _BEYOND:
        return f"has an integer of more than {DIGITS} digits: give it as text"
    if not isinstance(value, dict | list | tuple):
        return None
    if not room:
        return f"is nested more than {DEPTH} deep: give it as text"
    for part in value.values() if isinstance(value, dict) else value:
        if type(part) not in _SIMPLE and (why := _fault(part, room - 1)) is not None:
            return why
    return None


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """The beginning of any value, as printable text."""
    try:
        return ascii(value)[:SHOWN]
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"


def is_step(step: object) -> bool:
    """Whether it is an integer that the record can hold."""
    return isinstance(step, int) and -COUNTS <= step < COUNTS


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < COUNTS


def is_moment(value: Any) -> bool:
    return type(value) in (float, int) and 0 <= value < MOMENTS


def is_text(value: Any) -> bool:
    return type(value) is str


def is_pairs(value: Any) -> bool:
    """Whether it is a list of lists of two counts each."""
    return type(value) is list and all(
        type(pair) is list and len(pair) == 2 and is_count(pair[0]) and is_count(pair[1]) for pair in value
    )
