"""Trials that a search makes up as it learns: the bridge between the pool's items and `planner.search`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal.model import Item, Outcome
from shoal.planner.search import Range, Search
from shoal.spec import Cell, Objective, Trials
from shoal.work.job import Past, Recorded
from shoal.work.sweep.trial_rows import content_of, make_item

OPEN = 2
"""Points that a search which learns may have open for each worker."""


class _Trial:
    """One point of the search: `repeat` items, and the mean of their values. Pruned, if one of them was."""

    __slots__ = ("left", "number", "pruned", "values")

    def __init__(self, number: int, repeat: int) -> None:
        self.number = number
        self.left = repeat
        self.pruned = False
        self.values: list[float] = []

    @property
    def mean(self) -> float | None:
        return sum(self.values) / len(self.values) if self.values else None


class SearchSource:
    def __init__(self, trials: Trials, objective: Objective | None, past: Past, limit: int | None) -> None:
        assert trials.search is not None
        assert trials.count is not None
        self._objective = objective
        self._repeat = trials.repeat
        self._columns = tuple(trials.search)
        self._search = Search(
            {name: _range(range_) for name, range_ in trials.search.items()},
            goal=objective.goal if objective else "max",
            sampler=trials.sampler or "random",
            pruner=trials.pruner,
            seed=trials.seed,
        )
        self._texts = {
            name: {_key(cell.value): cell for cell in range_.choices}
            for name, range_ in trials.search.items()
        }
        total = min(trials.count, self._search.size or trials.count) * trials.repeat
        self._left = (total if limit is None else min(limit, total)) - sum(past.contents.values())
        self._seq = past.next_seq
        self._learns = trials.sampler == "tpe"
        self._trials: dict[str, _Trial] = {}
        self._known = past.contents if trials.sampler == "grid" else {}
        self._occurrences = Counter(past.contents)
        self._remember(past.recorded)

    def _remember(self, recorded: Iterator[Recorded]) -> None:
        """Ask, report and tell again what earlier sessions did; first what has ended, which the rest competes with."""
        points = [
            (_Trial(self._search.ask_again(point[0].item.params), len(point)), point)
            for point in _points(recorded, self._repeat)
        ]
        points.sort(key=lambda entry: any(each.outcome is None for each in entry[1]))
        for trial, point in points:
            self._trials.update((each.item.id, trial) for each in point)
            self._search.report_again(trial.number, list(self._curve(point)))
            for each in point:
                if each.outcome is not None:
                    self.ended(each.item, each.outcome)

    def _curve(self, point: Iterable[Recorded]) -> Iterator[tuple[int, float]]:
        for entry in point:
            for step, metrics in entry.reports:
                value = self._measured(metrics)
                if value is not None:
                    yield step, value

    def take(self, most: int, workers: int) -> Sequence[Item]:
        if self._learns:
            # What is asked for now is chosen without the results of what is open: little more than is needed.
            most = min(most, OPEN * workers * self._repeat - len(self._trials))
        items: list[Item] = []
        while len(items) < most and self._left > 0:
            repeat = min(self._repeat, self._left)
            items += self._ask(repeat)
            self._left -= repeat
        return items

    def _ask(self, repeat: int) -> list[Item]:
        """A new point: all its items at once, so that they are recorded together or not at all."""
        number, row, content = self._point()
        while content in self._known:  # It waits since an earlier session.
            self._search.tell(number, None)
            number, row, content = self._point()
        trial = _Trial(number, repeat)
        before = self._occurrences[content]
        items = [make_item(self._seq + i, self._columns, row, content, before + i) for i in range(repeat)]
        self._occurrences[content] += repeat
        self._trials.update((item.id, trial) for item in items)
        self._seq += repeat
        return items

    def _point(self) -> tuple[int, list[Cell], str]:
        number, params = self._search.ask()
        row = [self._texts[name].get(_key(params[name])) or Cell.of(params[name]) for name in self._columns]
        return number, row, content_of(self._columns, row)

    def left(self) -> int:
        return max(0, self._left)

    def finished(self) -> bool:
        return self._left <= 0

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        value = self._measured(metrics)
        if value is None or step is None or self._objective is None:
            return None
        if self._search.report(self._trials[item.id].number, step, value):
            return f"pruned at step {step}: {self._objective.metric} {value:g} is behind other trials"
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        if outcome.state == "stopped":
            return
        trial = self._trials.pop(item.id)
        trial.left -= 1
        trial.pruned = trial.pruned or outcome.state == "pruned"
        value = self._measured(outcome.metrics) if outcome.state == "done" else None
        if value is not None:
            trial.values.append(value)
        if trial.left == 0:
            self._search.tell(trial.number, trial.mean, pruned=trial.pruned)

    def _measured(self, metrics: Mapping[str, Any]) -> float | None:
        """The objective, where it is a number that can be compared."""
        value = metrics.get(self._objective.metric) if self._objective is not None else None
        try:
            return float(value) if isinstance(value, int | float) else None
        except OverflowError:
            return None


def _points(recorded: Iterator[Recorded], repeat: int) -> Iterator[list[Recorded]]:
    """The items of each point, which were recorded together: equal ones in a row."""
    for _, equal in itertools.groupby(recorded, lambda entry: entry.item.content):
        while point := list(itertools.islice(equal, repeat)):
            yield point


def _range(range_: Any) -> Range:
    return Range(range_.kind, range_.low, range_.high, [cell.value for cell in range_.choices])


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
