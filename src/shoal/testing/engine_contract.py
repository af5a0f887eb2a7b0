"""The contract of `shoal.engine.base`, as tests. Inherit once per engine, in a class that pytest collects:

class TestMine(EngineContract):
    def make_engine(self, nodes): return MyEngine(nodes)
"""

from __future__ import annotations

from shoal.testing.contract_items import ItemContract
from shoal.testing.contract_places import PlaceContract
from shoal.testing.contract_workers import WorkerContract


class EngineContract(ItemContract, WorkerContract, PlaceContract):
    """Every line of the contract that can be seen from outside.

    Fill in `make_engine`; also `make_two_engines` where drivers share, and `leftovers` to look for what
    `close` has left. The nodes are small and few, so that virtual nodes on one machine will do. `patience_s`
    is how long something may take that must come, `quiet_s` how long to listen for what must not.

    For an engine that runs items in the driver's own process: `class TestMine(EngineContract, isolated=False)` leaves
    out the tests with the marker `isolation`.
    """

    def __init_subclass__(cls, *, isolated: bool = True) -> None:
        super().__init_subclass__()
        for name in () if isolated else dir(cls):
            if any(mark.name == "isolation" for mark in getattr(getattr(cls, name), "pytestmark", ())):
                setattr(cls, name, None)
