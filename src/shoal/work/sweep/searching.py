"""Trials that a search makes up as it learns: the bridge between the pool's items and `plan.search`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.model import Item, Outcome
from shoal.plan.search import Range, Search
from shoal.spec import Cell, Objective, Trials
from shoal.work.job import Past
from shoal.work.sweep.items import content_of, make_item

OPEN = 2
"""Points that a search which learns may have open for each worker."""


class _Trial:
    """One point of the search: `repeat` items, and the mean of their values."""

    __slots__ = ("left", "number", "values")

    def __init__(self, number: int, repeat: int) -> None:
        self.number = number
        self.left = repeat
        self.values: list[float] = []


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
            # A later session begins at another seed: the same one would try the same points again.
            seed=None if trials.seed is None else trials.seed + past.next_seq - 1,
        )
        self._texts = {
            name: {_key(cell.value): cell for cell in range_.choices}
            for name, range_ in trials.search.items()
        }
        total = min(trials.count, self._search.size or trials.count) * trials.repeat
        self._left = (total if limit is None else min(limit, total)) - (past.next_seq - 1)
        self._seq = past.next_seq
        self._learns = trials.sampler == "tpe"
        self._trials: dict[str, _Trial] = {}
        self._known = past.contents if trials.sampler == "grid" else {}
        for item, outcome in past.ended:
            self._search.learn(item.params, self._value(outcome))

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
        items = [make_item(self._seq + i, self._columns, row, content, 0) for i in range(repeat)]
        self._trials.update((item.id, trial) for item in items)
        self._seq += repeat
        return items

    def _point(self) -> tuple[int, list[Cell], str]:
        number, params = self._search.ask()
        row = [self._texts[name].get(_key(params[name])) or Cell.of(params[name]) for name in self._columns]
        return number, row, content_of(self._columns, row)

    def _trial(self, item: Item) -> _Trial:
        """The trial of an item; one from an earlier session is asked for again, with its own parameters."""
        if item.id not in self._trials:
            self._trials[item.id] = _Trial(self._search.ask_again(item.params), 1)
        return self._trials[item.id]

    def left(self) -> int:
        return max(0, self._left)

    def finished(self) -> bool:
        return self._left <= 0

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        if self._objective is None or step is None:
            return None
        value = _number(metrics.get(self._objective.metric))
        if value is None:
            return None
        if self._search.report(self._trial(item).number, step, value):
            return f"pruned at step {step}: {self._objective.metric} {value:g} is behind other trials"
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        if outcome.state == "stopped":
            return
        trial = self._trial(item)
        trial.left -= 1
        value = self._value(outcome)
        if value is not None:
            trial.values.append(value)
        if trial.left == 0:
            mean = sum(trial.values) / len(trial.values) if trial.values else None
            self._search.tell(trial.number, mean, pruned=outcome.state == "pruned")
        del self._trials[item.id]

    def _value(self, outcome: Outcome) -> float | None:
        if self._objective is None or outcome.state != "done":
            return None
        return _number(outcome.metrics.get(self._objective.metric))


def _number(value: Any) -> float | None:
    """A value to search by; None where it is no number, or one that no float can hold."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _range(range_: Any) -> Range:
    return Range(range_.kind, range_.low, range_.high, [cell.value for cell in range_.choices])


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
