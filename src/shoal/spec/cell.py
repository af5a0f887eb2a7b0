"""One value of one parameter: what a function gets, and the exact text that a command gets."""

from __future__ import annotations

from typing import Any, NamedTuple

RESERVED = ("item", "state", "attempt", "node", "started", "seconds", "error")
"""Columns that every result row has; a parameter may not be called like one of them."""


class Cell(NamedTuple):
    """`value` is typed (a blank is None); `text` is as it was written (a blank is empty)."""

    value: Any
    text: str

    @classmethod
    def of(cls, value: Any) -> Cell:
        """The cell for a value that was never written down, such as one from Python or a sampler."""
        return cls(value, text_of(value))


def text_of(value: Any) -> str:
    """How a value that comes without a text is written: as in a workload file."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"{value:+}".replace("+nan", ".nan").replace("+", "").replace("inf", ".inf")
    return str(value)
