"""For those who build on Shoal: the contract suite for engines, and runners and models to test with.

Needs pytest, which Shoal itself does not; so nothing here is loaded before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.testing.engine_contract import EngineContract
    from shoal.testing.events import collect, quiet
    from shoal.testing.scripted_model import simulated, simulated_start

__all__ = ["EngineContract", "collect", "quiet", "simulated", "simulated_start"]

_HOMES = {
    "EngineContract": "shoal.testing.engine_contract",
    "collect": "shoal.testing.events",
    "quiet": "shoal.testing.events",
    "simulated": "shoal.testing.scripted_model",
    "simulated_start": "shoal.testing.scripted_model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "EngineContract":
        import pytest

        parts = ("items", "places", "workers")
        pytest.register_assert_rewrite(*(f"shoal.testing.contract_{part}" for part in parts))
    return getattr(import_module(_HOMES[name]), name)
