"""What the layers above know of a kind of work: how it is prepared, counted, shown, summed up and tried.

Drawing and printing are not here: a kind gives values, and does not know who shows them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal import words
from shoal.kinds import KINDS
from shoal.spec.command import RESERVED

if TYPE_CHECKING:
    from shoal.cluster.containers.spark_application import SparkWork
    from shoal.spec import Workload
    from shoal.store import RunInfo, RunStore
    from shoal.work.job import Job
    from shoal.work.pages import Page

ROWS_SHOWN = 20
RANKED = 50_000
"""Up to so many items the best rows are looked for; beyond, the first ones are shown."""


class Excerpt(NamedTuple):
    """As much of a run's results as is shown when it ends, and what is said of it."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    which: str = ""
    """What the rows are, where they are not all: `the best 20 of 1000`."""
    metrics: Sequence[str] = ()
    """Columns that stay where not all have room."""
    objective: Sequence[str] = ()
    """The metric that says what is best, if there is one."""
    best: str | None = None
    before: Sequence[str] = ()
    """Lines to be said before those about the rows."""
    after: Sequence[str] = ()


class Extra(NamedTuple):
    """A package that some workloads of a kind need."""

    package: str
    purpose: str
    extra: str
    """The extra of Shoal that brings it."""
    with_gpu: str = ""
    """What to do where the build that is installed uses no GPU; empty where that makes no difference."""


class Kind:
    """One kind of work. A kind inherits what is true of it as it stands: that its results are its items."""

    noun = "run"
    """What a run of this kind is called."""
    unit = "item"
    """What people count."""
    counted_by: tuple[str, ...] = ()
    """Metrics of an item whose sum is how many units it was; without, each item is one."""
    has_output = False
    """Whether its results are rows of an output of its own, and not one row for each item."""
    is_compared = False
    """Whether its items are comparable: then one may be best, and those with equal parameters have averages."""
    code = ""
    """The section of a workload that names the code to run."""
    extras: Mapping[str, Extra] = {}
    """By the module that is imported."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def item(self) -> str:
        """What an item is called."""
        return "item" if self.counted_by else self.unit

    def samples(self) -> Mapping[str, str]:
        """The files of a small example, by name. The first is the workload."""
        return {}

    def prepare(self, spec: Workload, *, limit: int | None = None) -> Job:
        """Check everything that can be known to be wrong, all at once: `SpecError`; else the job."""
        raise NotImplementedError

    def written_to(self, spec: Workload, folder: str) -> list[str]:
        """What to `--set` so that a run writes its output to this folder of the machine; nothing where it has none."""
        return []

    def spark_work(self, spec: Workload) -> SparkWork | None:
        """What a Spark application that runs this workload has; None for kinds that Spark cannot run.

        Raises `SpecError` where this workload cannot.
        """
        return None

    def uses_gpu(self, module: str) -> bool:
        """Whether the build of this extra that is installed can use a GPU. Imports nothing."""
        return True

    # Results.

    def rows(self, store: RunStore, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Result rows, as they are read; `limit` is how many at most."""
        return islice(store.rows(), limit)

    def rows_of(self, store: RunStore, item: str) -> Iterator[dict[str, Any]]:
        """The result rows that came of one item."""
        yield store.row(item)

    def table(self, store: RunStore) -> Any:
        """All result rows as a pyarrow table."""
        return store.table()

    def missing(self, store: RunStore) -> str | None:
        """A sentence, where results that were written are not there any more."""
        return None

    def leftovers(self, store: RunStore) -> Callable[[], None]:
        """What removes, once the run is removed, what it has outside of its folder and only a resume would need."""
        return lambda: None

    # What is said of a run.

    def document(self, store: RunStore) -> Mapping[str, Any] | None:
        """What the run came to, as its last session kept it; None before that."""
        return store.kept().document

    def in_words(self, document: Mapping[str, Any]) -> list[str]:
        """What the run came to, as lines."""
        return []

    def decisions(self, store: RunStore) -> list[Mapping[str, Any]]:
        """What was found out while it ran: name, choice, why."""
        return list((self.document(store) or {}).get("decisions", ()))

    def measures(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Numbers and texts that runs are compared by, the most important first. `seconds` is what the run took."""
        numbers = {name: value for name, value in document.items() if _is_number(value) and name != "seconds"}
        return {"run_s": seconds, **numbers}

    def counts(self, items: Mapping[str, int], document: Mapping[str, Any]) -> str:
        """How much was done: `12 done, 1 failed`."""
        return words.counts(items, "no items")

    def is_averaged(self, store: RunStore) -> bool:
        """Whether the averages of its items are shown, and not each of them."""
        return False

    def excerpt(self, store: RunStore) -> Excerpt:
        """The best items where something says what is best, else the first."""
        info, which = store.info(), ""
        total = sum(info.items.values())
        rows: list[dict[str, Any]] = []
        if total > ROWS_SHOWN:
            if info.objective is not None and total <= RANKED:
                rows, which = store.best(*info.objective, count=ROWS_SHOWN), "the best"
            if not rows:
                which = "the first"
        rows = rows or list(islice(store.rows(), ROWS_SHOWN))
        return Excerpt(
            store.columns(),
            rows,
            f"{which} {len(rows)} of {total}" if which else "",
            metrics_of(store),
            (info.objective or ())[:1],
            best_in_words(info),
        )

    def page(self, store: RunStore, info: RunInfo) -> Page:
        """What the page about a run shows of this kind."""
        from shoal.work.pages import Page, counted

        return Page(counted(info, self.item))


def kind_of(name: str) -> Kind:
    """The kind of this name. One that this version does not know is shown by its items."""
    entry = KINDS.get(name)
    if entry is None or entry.work is None:
        return Kind(name)
    found: Kind = import_module(entry.work).KIND
    return found


def metrics_of(store: RunStore) -> list[str]:
    """The columns of a run that hold metrics."""
    params = store.parameters()
    return [name for name in store.columns() if name not in params and name not in RESERVED]


def best_in_words(info: RunInfo) -> str | None:
    """The best row in a line: what was measured, then what it was measured with."""
    if info.best is None or info.objective is None:
        return None
    row, metric = info.best, info.objective[0]
    column = f"metric.{metric}" if f"metric.{metric}" in row else metric
    about = (*RESERVED, column)
    rest = {name: value for name, value in row.items() if name not in about and value is not None}
    with_what = f" ({words.parameters(rest, 200)})" if rest else ""
    return f"{row['item']} with {column} {words.number(row[column])}{with_what}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def workload_of(store: RunStore) -> Workload:
    """The workload of a run, as its file was then."""
    from shoal import spec as specs

    document = store.document
    return specs.loads(
        store.spec_text,
        folder=workload_folder(document["path"]),
        label=os.path.basename(document["path"]),
        sets=document["sets"],
    )


def workload_folder(path: str) -> str:
    """Where the workload's file was; on another machine, to which only the run was brought, the current folder."""
    from shoal.cluster.this_machine import Here

    here = Here().folder
    moved = not os.path.exists(path) and os.path.exists(os.path.join(here, os.path.basename(path)))
    return here if moved else os.path.dirname(path)
