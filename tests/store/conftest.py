"""What tests of the store share: a home, runs in it, and items for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.store import RunStore

NOW = 1_700_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / ".shoal")


@pytest.fixture
def make_run(home: str) -> Iterator[Callable[..., RunStore]]:
    """Makes runs, and closes what the test left open."""
    numbers = itertools.count()
    opened: list[RunStore] = []

    def make(name: str = "next-cell", now: float = NOW, **given: Any) -> RunStore:
        values = {
            "kind": "sweep",
            "spec_text": "kind: sweep\n",
            "document": {"workload": "/w/sweep.yaml"},
        } | given
        store = RunStore.create(home, name=name, now=now, token=lambda: f"{next(numbers):04x}", **values)
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def run(make_run: Callable[..., RunStore]) -> RunStore:
    return make_run(objective=("accuracy", "max"))
