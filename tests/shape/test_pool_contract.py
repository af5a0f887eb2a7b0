"""The pool keeps the contract of shapes."""

from __future__ import annotations

from collections.abc import Sequence

from shape.test_pool import Listed
from shoal.engine.base import Engine
from shoal.model import Item, Need
from shoal.shape.base import Policy, Watcher
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal
from shoal.testing import ShapeContract
from shoal.testing.shape_contract import FACTORY


class TestPool(ShapeContract):
    def make_shape(
        self,
        engine: Engine,
        journal: MemoryJournal,
        items: Sequence[Item],
        policy: Policy,
        watcher: Watcher,
    ) -> Pool:
        new = Listed([item for item in items if item.seq not in journal.records()])
        resumed = iter(journal.waiting_items())
        return Pool(engine, journal, [Lane(FACTORY, Need(), policy)], new, resumed=resumed, watcher=watcher)
