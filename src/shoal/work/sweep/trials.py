"""The trials of a sweep, boiled down to what can be drawn: as much for a hundred thousand of them as for a thousand."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal import words
from shoal.model.states import WITH_RESULT
from shoal.spec.command import RESERVED

if TYPE_CHECKING:
    from shoal.store import RunStore

MOST_POINTS = 1000
MOST_STEPS = 200
"""Of the line that follows the best one."""
MOST_VALUES = 20
"""Words that a parameter may have to be drawn; one with more is as good as a name."""
MOST_NODES = 30
BEST = 20
_UNHASHABLE = (list, dict)


class Trial(NamedTuple):
    """A trial that is done and gave a number."""

    item: str
    ended_s: float
    """After the run began."""
    value: float
    params: Mapping[str, Any]


class Parameter(NamedTuple):
    """A parameter that differs between trials."""

    name: str
    values: tuple[str, ...] | None
    """Its words, in the order in which they came; None where all of them are numbers."""


class NodeUse(NamedTuple):
    """How long trials took on a node, in seconds."""

    node: str
    trials: int
    shortest_s: float
    quarter_s: float
    median_s: float
    three_quarters_s: float
    longest_s: float
    total_s: float


class Trials(NamedTuple):
    rows: list[dict[str, Any]]
    """The best ones, best first; the first ones where none is best."""
    is_ranked: bool
    columns: list[str]
    """Of these rows: those that tell something."""
    metric: str | None
    """The column of the objective; else of the first metric that is a number."""
    goal: str | None
    points: list[Trial]
    measured: int
    """How many trials the points were taken from."""
    leading: list[tuple[float, float]]
    """When there was a new best one, and what it gave."""
    parameters: list[Parameter]
    left_out: list[str]
    """Parameters that differ and have too many words."""
    nodes: list[NodeUse]


def trials(store: RunStore, began: float) -> Trials:
    """Reads every row once."""
    metric, goal = _metric(store)
    given = store.parameters()
    seen = {name: _Seen() for name in given}
    sample = _Sample()
    ended, values = array("d"), array("d")
    durations: dict[str, array[float]] = {}
    for row in store.rows():
        for name in given:
            seen[name].add(row[name])
        if row["state"] not in WITH_RESULT:
            continue
        if row["seconds"] is not None:
            durations.setdefault(row["node"] or "", array("d")).append(row["seconds"])
        value = number(row.get(metric)) if metric is not None else None
        at = _ended(row)
        if value is not None and at is not None:
            params = {name: row[name] for name in given}
            sample.add(Trial(row["item"], at - began, value, params))
            ended.append(at - began)
            values.append(value)
    objective = store.info().objective
    best = store.best(*objective, count=BEST) if objective is not None else []
    rows = best or list(islice(store.rows(), BEST))
    return Trials(
        rows,
        bool(best),
        _telling(rows, store.columns(), {metric, *(name for name in given if seen[name].differs())}),
        metric,
        goal,
        sample.values(),
        len(values),
        _leading(ended, values, goal) if goal is not None else [],
        [Parameter(name, each.words()) for name, each in seen.items() if each.can_be_drawn()],
        [name for name, each in seen.items() if each.differs() and not each.can_be_drawn()],
        _nodes(durations),
    )


def number(value: Any) -> float | None:
    """A finite number, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def word(value: Any) -> str:
    """A value as one of the words of a parameter."""
    return "none" if value is None else words.number(value)


def _metric(store: RunStore) -> tuple[str | None, str | None]:
    """The column to be drawn, and whether more of it is better."""
    metrics = [name for name in store.columns() if name not in RESERVED and name not in store.parameters()]
    objective = store.info().objective
    if objective is not None:
        name, goal = objective
        return next((each for each in (f"metric.{name}", name) if each in metrics), None), goal
    first = list(islice(store.rows(WITH_RESULT), MOST_POINTS))
    return next(
        (each for each in metrics if any(number(row.get(each)) is not None for row in first)), None
    ), None


def _telling(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], keep: Set[str | None]) -> list[str]:
    """What is to be kept, and what is not the same in every row."""
    wanted = {"item", "seconds", *keep}
    return [
        name
        for name in columns
        if name in wanted or (name != "started" and len({repr(row.get(name)) for row in rows}) > 1)
    ]


def _ended(row: Mapping[str, Any]) -> float | None:
    if row["started"] is None or row["seconds"] is None:
        return None
    return datetime.fromisoformat(row["started"]).timestamp() + float(row["seconds"])


def _leading(ended: Sequence[float], values: Sequence[float], goal: str) -> list[tuple[float, float]]:
    sign = -1.0 if goal == "max" else 1.0
    found: list[tuple[float, float]] = []
    for at, value in sorted(zip(ended, values, strict=True)):
        if not found or sign * value < sign * found[-1][1]:
            found.append((at, value))
    every = -(-len(found) // MOST_STEPS)
    return [*found[::every], found[-1]] if every > 1 else found


def _nodes(durations: Mapping[str, array[float]]) -> list[NodeUse]:
    """Those that did most come first."""
    return [
        _node_use(name, sorted(each))
        for name, each in sorted(durations.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:MOST_NODES]
    ]


def _node_use(name: str, seconds: Sequence[float]) -> NodeUse:
    last = len(seconds) - 1
    least, quarter, median, three_quarters, most = (seconds[round(last * share / 4)] for share in range(5))
    return NodeUse(name, len(seconds), least, quarter, median, three_quarters, most, math.fsum(seconds))


class _Sample:
    """So many trials at most, chosen by a digest of their names: always the same ones, and no pattern in the order
    of a grid decides which."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, Trial]] = []
        self._count = 0

    def add(self, trial: Trial) -> None:
        self._count += 1
        rank = int.from_bytes(blake2b(trial.item.encode("utf-8", "replace"), digest_size=8).digest())
        entry = (-rank, self._count, trial)
        if len(self._kept) < MOST_POINTS:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def values(self) -> list[Trial]:
        """In the order in which they came."""
        return [trial for _, _, trial in sorted(self._kept, key=lambda entry: entry[1])]


class _Seen:
    """The values of one parameter."""

    def __init__(self) -> None:
        self._words: dict[str, None] = {}
        self._numeric = True
        self._low, self._high = math.inf, -math.inf
        self._known: set[tuple[type, Any]] = set()
        """Values that were looked at: most come again and again."""

    def add(self, value: Any) -> None:
        if isinstance(value, _UNHASHABLE) or (value.__class__, value) not in self._known:
            self._look(value)

    def _look(self, value: Any) -> None:
        if len(self._known) < MOST_POINTS and not isinstance(value, _UNHASHABLE):
            self._known.add((value.__class__, value))
        if (found := number(value)) is not None:
            self._low, self._high = min(found, self._low), max(found, self._high)
        elif value is not None:
            self._numeric = False
        if len(self._words) <= MOST_VALUES:
            self._words.setdefault(word(value))

    def differs(self) -> bool:
        return len(self._words) > 1 or self._low < self._high

    def can_be_drawn(self) -> bool:
        return self.differs() and (self._numeric or len(self._words) <= MOST_VALUES)

    def words(self) -> tuple[str, ...] | None:
        return None if self._numeric else tuple(self._words)
