"""What a worker says of itself when it is ready, and again when it has changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.engine.workers.runner import Runner

THIS_MACHINE = "127.0.0.1"
"""The address of a worker that only this machine has to reach."""


class Facts:
    """What the engine knows of this process, and over it what its runner has as `facts`, if it has any."""

    def __init__(self, runner: Runner, address: str, devices: Sequence[str]) -> None:
        self._runner = runner
        self._known = {"pid": os.getpid(), "address": address, "devices": list(devices)}
        self._told: dict[str, Any] | None = None

    def news(self) -> Mapping[str, Any] | None:
        """All of them; None when they are as they were the last time."""
        own = getattr(self._runner, "facts", None)
        if own is None and self._told is not None:
            return None  # The usual case, asked after every item.
        facts = {**self._known, **(own or {})}
        if facts == self._told:
            return None
        self._told = facts
        return facts
