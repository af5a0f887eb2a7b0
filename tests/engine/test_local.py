"""The embedded engine keeps the contract, with real processes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from shoal.engine.base import Engine
from shoal.engine.local.engine import LocalEngine
from shoal.model import Factory, Item, ItemEnded, ItemStarted, Need, Node, WorkerLost, WorkerReady
from shoal.testing import EngineContract, collect
from shoal.testing.events import of
from shoal.testing.runners import TARGET


class TestLocalEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_engine(self, nodes: Sequence[Node]) -> Engine:
        return LocalEngine(nodes, str(self.folder / "run"))

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        return self.make_engine(nodes), LocalEngine(nodes, str(self.folder / "other"))

    def leftovers(self, engine: Engine) -> list[str]:
        processes = [process.name() for process in psutil.Process().children(recursive=True)]
        with open(os.environ["SHOAL_LEASES"]) as file:
            leases = [f"lease {name}" for name, entry in json.load(file).items() if entry["places"]]
        return processes + leases
