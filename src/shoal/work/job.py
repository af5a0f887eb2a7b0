"""What a kind of work has to say so that a session can run it, and what it is told about earlier sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from shoal.engine.base import Engine
from shoal.errors import Problem, SpecError, several
from shoal.files.turns import FirstTurn, Turn, Turns
from shoal.model import Asks, Factory, Item, Need, Outcome, Plan, Prediction
from shoal.model.node import Node, Packages
from shoal.model.plan import Profile
from shoal.planner.durations import Durations
from shoal.shape.base import Policy, Shape, Watcher
from shoal.shape.journal import Journal
from shoal.shape.pool import Guide, Lane, Pool, Source
from shoal.spec import Workload

Learned: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a kind found out by itself while it ran, as JSON, by the kind of node."""


class Recorded(NamedTuple):
    """An item of an earlier session, as it was recorded."""

    item: Item
    outcome: Outcome | None = None
    """Its final state; None for one that waits."""
    reports: Sequence[tuple[int, Mapping[str, Any]]] = ()
    """What it reported for each step, in that order."""


class Past(NamedTuple):
    """What the store knows of a run when a session begins. Empty for a new one."""

    next_seq: int = 1
    contents: Mapping[str, int] = {}
    """How many items with this content there are."""
    recorded: Iterator[Recorded] = iter(())
    """Every item with what became of it, in order, for a search that learns from them."""
    waiting: int = 0
    items: Callable[[], Iterator[Item]] = lambda: iter(())
    """Every item that is recorded, in order, as often as it is asked for."""
    learned: Mapping[str, Mapping[str, Any]] = {}
    turn: Turn = FirstTurn()
    """The one that this session has at the run."""


class Conclusion(NamedTuple):
    """What a kind has to say of a run when a session has nothing left to do, or was stopped."""

    failed: bool = False
    """Whether the run counts as failed, whatever became of its items."""
    notes: tuple[str, ...] = ()
    document: Mapping[str, Any] = {}
    """Kept with the run."""
    learned: Mapping[str, Mapping[str, Any]] = {}


class Setting(NamedTuple):
    """What a session puts at the disposal of a shape."""

    engine: Engine
    journal: Journal
    env: Mapping[str, str] = {}
    """For every worker, beside what its factory says."""
    past: Past = Past()
    resumed: Iterator[Item] | None = None
    """Items of earlier sessions that wait."""
    durations: Durations | None = None
    watcher: Watcher | None = None
    ceiling: Mapping[str, int] | None = None
    """Most workers on each node, by host, where a plan is followed."""


class Job(Protocol):
    """A workload that was checked and can be run: what a session asks of it, in the order of a run's life.

    Every kind answers what has no answer here; the rest most kinds leave as it is.
    """

    kind: str
    name: str
    failures: int
    """How many failed items still make a run that succeeded."""

    @property
    def fingerprint(self) -> str:
        """Equal for workloads whose items take equally long: what was learned from one serves the other."""

    @property
    def folder(self) -> str:
        """Where the workload is: its workers begin there."""

    @property
    def packages(self) -> Packages:
        """What has to be installed before a worker can start; raises `SpecError` when it cannot be read."""

    def imports(self) -> Mapping[str, str]:
        """Modules that the work is certain to import, as far as reading its code can tell, and where it does."""

    def asks(self) -> Asks:
        """All that it asks for of the nodes, after `fit`."""

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:
        """What would happen, why, and how long it would take."""

    def shape(self, setting: Setting) -> Shape:
        """What runs it, after `begin`: nothing has been asked of the engine so far."""

    def total(self) -> int | None:
        """How many items there will be, where that is known."""

    def still_wanted(self, item: Item) -> bool:
        """Whether an item of an earlier session is still asked for."""

    def has_more(self, past: Past) -> bool:
        """Whether there are items now that are not recorded."""

    def fit(self, nodes: Sequence[Node], *, here: bool = True) -> None:
        """These are the nodes there are: what workers need may be chosen by them. Before anything else is asked.

        `here` says that they are this machine: workers have what is installed where Shoal runs.
        """
        return

    def inputs(self) -> str:
        """What its items are made from, beside the workload file, as a digest. Reads or lists all of it."""
        return ""

    def settings(self) -> Mapping[str, Any]:
        """What a plan may pin, by the key of the workload; None where it is found out while it runs."""
        return {}

    def predict(self, node: Node, count: int, learned: Learned) -> Prediction:
        """How long it takes on so many nodes like this one. For kinds without a `total`: they cut items as they go.

        Raises `SpecError` when that cannot be known.
        """
        raise SpecError("Nothing can be predicted: how many items there will be is not known.")

    def local_paths(self) -> Mapping[str, str]:
        """Files and folders of this machine that workers have to reach, by the key that names them."""
        return {}

    def begin(self, run: str, home: str, *, resumed: bool) -> None:
        """A session begins: no worker has been started. Raises `SpecError` when it cannot."""
        return

    def turns(self) -> Sequence[Turns]:
        """Where the run's turns are written down beside its record: in each place that its results go to.

        Asked after `begin`. The session takes its turn there, last of all, before anything is handed out.
        """
        return ()

    def made_of(self) -> str | None:
        """What results depend on beside the workload file and the inputs, as a digest that is kept with the run."""
        return None

    def began_with(self, made_of: str | None) -> None:
        """On a resume, before it begins: what `made_of` was when the run began."""
        return

    def weight(self) -> Callable[[Item], float] | None:
        """Weight of an item, for kinds whose items are comparable; it makes throughput measurable."""
        return None

    def results(self) -> str | None:
        """Where the results are, or will be, if not in results.csv."""
        return None

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        """A session ends: `items` are those done, with their metrics, `seconds` what the run has taken in all.

        What removes or publishes something asks `turn.ensure()` first, and passes on what that raises.
        May be called again for the same run: after a resume, or when a driver was killed in it.
        """
        return Conclusion()

    def tidy(self, turn: Turn) -> None:
        """The run has succeeded, and that is recorded: nothing needs what was only kept for a resume."""
        return

    def apart(self, mark: str) -> Sequence[str]:
        """What to `--set` so that a run which is only to measure replaces nothing of others; nothing, if it does not.

        `mark` is for names. What such a run wrote is removed by `discard`.
        """
        return ()

    def discard(self) -> None:
        """Remove what runs of this workload wrote: it was asked for with `apart`. May be called twice."""
        return

    def close(self, *, replaced: bool = False) -> None:
        """The session is over, however it ended: nothing that `shape` began goes on. May be called twice.

        `replaced`: another driver has the run now, and nothing is said in its name.
        """
        return


class PoolJob(Job, Protocol):
    """A job of independent items for one lane of workers."""

    factory: Factory
    need: Need
    policy: Policy

    @property
    def folder(self) -> str:
        return self.factory.folder

    def source(self, past: Past, nodes: Callable[[], Sequence[Node]]) -> tuple[Source, Guide | None]:
        """Where the items that are not recorded yet come from, and the guide, for kinds that tune while they run.

        `nodes` gives those alive.
        """

    def asks(self) -> Asks:
        return ((self.need,),)

    def shape(self, setting: Setting) -> Shape:
        factory = self.factory._replace(env={**self.factory.env, **setting.env})
        source, guide = self.source(setting.past, setting.engine.nodes)
        lane = Lane(factory, self.need, self.policy._replace(ceiling=setting.ceiling), guide)
        return Pool(
            setting.engine,
            setting.journal,
            [lane],
            source,
            resumed=setting.resumed,
            durations=setting.durations,
            watcher=setting.watcher,
        )


def requirement_problems(spec: Workload) -> list[Problem]:
    """Everything that is wrong with the packages that a workload asks for."""
    if not spec.requirements:
        return []
    from shoal.work.requirements import read_requirements

    return read_requirements(spec.requirements, spec.folder)[1]


def packages_of(spec: Workload) -> Packages:
    """What a workload asks to be installed; raises `SpecError` when that cannot be read."""
    if not spec.requirements:
        return Packages()
    from shoal.work.requirements import read_requirements

    packages, problems = read_requirements(spec.requirements, spec.folder)
    if problems:
        raise several(problems)
    return packages


def not_yet(spec: Workload) -> list[Problem]:
    asked = {
        "image": (spec.image, "Leave it out: work runs with the Python that runs Shoal."),
        "placement.near": (spec.placement.near, "Place by labels: or node: instead."),
    }
    return [Problem(f"{key}: not possible yet.", hint) for key, (value, hint) in asked.items() if value]
