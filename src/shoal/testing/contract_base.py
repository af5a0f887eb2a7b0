"""What the parts of the engine contract share: hooks that a subclass fills in, and how to get a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from shoal.engine.base import Engine
from shoal.model import Event, Factory, Item, Need, Node, Place
from shoal.testing.events import collect
from shoal.testing.runners import TARGET

GIB = 1 << 30
NODE = Node("alpha", cpu=2, memory_bytes=4 * GIB)

Start = Callable[..., Engine]


def item(seq: int, do: str = "sleep", *, attempt: int = 0, **params: Any) -> Item:
    """An item for the runner `Scripted`."""
    return Item(seq, f"item-{seq}", {"do": do, **params}, attempt=attempt)


def scripted(**arguments: Any) -> Factory:
    return Factory(TARGET, arguments)


class ContractBase:
    """Hooks of a contract suite. `patience_s` is on the engine's own clock."""

    patience_s: ClassVar[float] = 30.0
    quiet_s: ClassVar[float] = 0.3
    """How long to listen for something that must not come."""

    def make_engine(self, nodes: Sequence[Node]) -> Engine:
        """A fresh engine with exactly these nodes. Fill this in."""
        raise NotImplementedError

    def make_two_engines(self, nodes: Sequence[Node]) -> tuple[Engine, Engine]:
        """Two drivers' engines that share these nodes. Fill this in where the engine has leases."""
        pytest.skip("make_two_engines is not filled in: sharing between drivers is not checked")

    def leftovers(self, engine: Engine) -> Sequence[str]:
        """What is still there of an engine after `close`: processes, places, leases. Fill this in."""
        return ()

    @pytest.fixture
    def start(self) -> Iterator[Start]:
        """Makes an engine with the nodes given (one small one by default), and closes it after the test."""
        opened: list[Engine] = []

        def make(*nodes: Node) -> Engine:
            opened.append(self.make_engine(nodes or (NODE,)))
            return opened[-1]

        yield make
        for engine in opened:
            engine.close()

    @pytest.fixture
    def two(self) -> Iterator[tuple[Engine, Engine]]:
        engines = self.make_two_engines((NODE,))
        yield engines
        for engine in engines:
            engine.close()

    def collect(self, engine: Engine, until: Callable[[list[Event]], object]) -> list[Event]:
        return collect(engine, until, self.patience_s)

    def place(self, engine: Engine, **need: Any) -> Place:
        """A place that is granted at once."""
        places = engine.reserve([Need(**need)], self.patience_s).places
        assert len(places) == 1, "a place that is free was not granted at once"
        return places[0]

    def worker(self, engine: Engine, **arguments: Any) -> int:
        return engine.spawn(scripted(**arguments), self.place(engine))
