"""What a kind of work has to say so that a pool can run it, and what it is told about earlier sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from shoal.model import Factory, Item, Need, Outcome, Plan
from shoal.model.node import Node
from shoal.model.packages import Packages
from shoal.model.profile import Profile
from shoal.shape.pool import Policy, Source


class Past(NamedTuple):
    """What the store knows of a run when a session begins. Empty for a new one."""

    next_seq: int = 1
    contents: Mapping[str, int] = {}
    """How many items with this content there are."""
    ended: Iterator[tuple[Item, Outcome]] = iter(())
    """Items that have their final state, for a search that learns from them."""
    waiting: int = 0


class PoolJob(Protocol):
    """A workload that was checked and can be run by a pool."""

    kind: str
    name: str
    factory: Factory
    need: Need
    policy: Policy
    failures: int
    """How many failed items still make a run that succeeded."""

    @property
    def fingerprint(self) -> str:
        """Equal for workloads whose items take equally long: what was learned from one serves the other."""

    @property
    def packages(self) -> Packages:
        """What has to be installed before a worker can start; raises `SpecError` when it cannot be read."""

    def imports(self) -> Mapping[str, str]:
        """Modules that the work is certain to import, as far as reading its code can tell, and where it does."""

    def total(self) -> int | None:
        """How many items there will be, where that is known."""

    def source(self, past: Past) -> Source:
        """Where the items that are not recorded yet come from."""

    def still_wanted(self, item: Item) -> bool:
        """Whether an item of an earlier session is still asked for."""

    def plan(self, nodes: list[Node], capacity: int, profile: Profile | None) -> Plan:
        """What would happen, why, and how long it would take."""
