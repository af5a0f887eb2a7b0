"""For those who build on Shoal: contract suites for engines, shapes and kinds; runners and models to test with.

Needs pytest, which Shoal itself does not; so nothing here is loaded before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.testing.engine_contract import EngineContract
    from shoal.testing.events import collect, quiet
    from shoal.testing.kind_contract import KindContract
    from shoal.testing.scripted_model import simulated, simulated_start
    from shoal.testing.shape_contract import ShapeContract

__all__ = [
    "EngineContract",
    "KindContract",
    "ShapeContract",
    "collect",
    "quiet",
    "simulated",
    "simulated_start",
]

_HOMES = {
    "EngineContract": "shoal.testing.engine_contract",
    "KindContract": "shoal.testing.kind_contract",
    "ShapeContract": "shoal.testing.shape_contract",
    "collect": "shoal.testing.events",
    "quiet": "shoal.testing.events",
    "simulated": "shoal.testing.scripted_model",
    "simulated_start": "shoal.testing.scripted_model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name.endswith("Contract"):
        import pytest

        parts = ("contract_items", "contract_places", "contract_workers", "workload_folder")
        pytest.register_assert_rewrite(_HOMES[name], *(f"shoal.testing.{part}" for part in parts))
    return getattr(import_module(_HOMES[name]), name)
