"""What simulated user code does: values that a model returns instead of running anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shoal.model import Factory, Item, ItemState


class Behaviour(NamedTuple):
    """One attempt at one item. `seconds` is the time it takes on a node of speed 1."""

    seconds: float
    outcome_state: str = ItemState.DONE
    metrics: Mapping[str, Any] = {}
    error: str | None = None
    reports: tuple[tuple[float, Mapping[str, Any], int | None], ...] = ()
    """(fraction of `seconds`, metrics, step), in the order of the fractions."""
    crash: bool = False
    """The worker dies where the item would have ended; `error` says of what."""
    leaves: bool = False
    """The worker goes there instead, because there is no room for it; `error` says why."""
    hang: bool = False
    """It never ends by itself: after its reports it waits for ever."""
    ignores_cancel: bool = False
    facts: Mapping[str, Any] | None = None
    """What the worker says of itself from then on, told before the end."""


class Startup(NamedTuple):
    """How a worker starts: after `seconds` on a node of speed 1 it is ready, or fails with `error`."""

    seconds: float = 0.1
    error: str | None = None
    facts: Mapping[str, Any] = {}
    """What the worker says of itself when it is ready, beside what the simulation knows."""


Model = Callable[[Factory, Item], Behaviour]
"""Asked as each item starts. The factory's `env` is as the worker sees it, devices included."""

StartModel = Callable[[Factory], Startup]


def usual_start(factory: Factory) -> Startup:
    """Every worker starts well, in a tenth of a second."""
    return Startup()
