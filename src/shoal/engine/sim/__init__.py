"""The simulation engine: nodes, speeds, faults and time are made up; a seed is enough to see it all again."""

from __future__ import annotations

from shoal.engine.sim.engine import SimEngine
from shoal.engine.sim.faults import (
    DriverCrashed,
    DriverCrashes,
    Duplicate,
    Fault,
    Late,
    NodeCutOff,
    NodeDies,
    SlowNode,
    WorkerDies,
    random_faults,
)
from shoal.engine.sim.records import Behaviour, Leftovers, Model, Ran, StartModel, Startup
from shoal.engine.sim.world import SimWorld

__all__ = [
    "Behaviour",
    "DriverCrashed",
    "DriverCrashes",
    "Duplicate",
    "Fault",
    "Late",
    "Leftovers",
    "Model",
    "NodeCutOff",
    "NodeDies",
    "Ran",
    "SimEngine",
    "SimWorld",
    "SlowNode",
    "StartModel",
    "Startup",
    "WorkerDies",
    "random_faults",
]
