"""The unit of work that is done, retried and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HIDDEN = "shoal:"
"""Parameters and metrics whose names begin so are recorded and sent; they are no columns, and teach nothing."""


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
