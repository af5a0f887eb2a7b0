"""Result rows with equal parameters as one row: how many, the mean of each number, and how far they lie apart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.model.states import WITH_RESULT, ItemState
from shoal.spec.command import RESERVED

COUNT, FAILED, DEVIATION, SECONDS = "count", "failed", "deviation", "seconds"

Row = Mapping[str, Any]


class Averages(NamedTuple):
    """Rows sorted by their parameters, and what their columns are. Metrics that are texts have what was found."""

    columns: list[str]
    rows: list[dict[str, Any]]
    parameters: list[str]
    metric: str | None
    """The column whose standard deviation is given: the objective's, else the first that holds numbers."""
    deviation: str
    """The column that holds it; None where there are fewer than two to compare."""
    counted: str
    """The column that says how many a mean is of; those that failed are in none."""
    failed: str

    def best(self, goal: str, count: int) -> list[dict[str, Any]]:
        """The best by the mean of the metric, best first; what has no number is left out."""
        column = self.metric or ""
        known = [row for row in self.rows if _is_number(row.get(column)) and not math.isnan(row[column])]
        return sorted(known, key=lambda row: row[column], reverse=goal == "max")[:count]


def average(
    rows: Iterable[Row], columns: Sequence[str], parameters: Sequence[str], objective: str | None = None
) -> Averages:
    """`rows` are result rows with these columns; `objective` is the metric that counts most."""
    metrics = [name for name in columns if name not in RESERVED and name not in parameters]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        key = json.dumps([row.get(name) for name in parameters], default=str)
        groups.setdefault(key, []).append(row)
    metric = _leading(metrics, groups.values(), objective)
    count, failed, deviation = (_free(name, columns) for name in (COUNT, FAILED, DEVIATION))
    made = []
    for group in sorted(groups.values(), key=lambda group: [_order(group[0].get(n)) for n in parameters]):
        done = [row for row in group if row["state"] in WITH_RESULT]
        row = {name: group[0].get(name) for name in parameters}
        row |= {count: len(done), failed: sum(each["state"] == ItemState.FAILED for each in group)}
        for name in [*metrics, SECONDS]:
            row[name] = _mean([each[name] for each in done if each.get(name) is not None])
            if name == metric:
                row[deviation] = _deviation([each[name] for each in done if _is_number(each.get(name))])
        made.append(row)
    leading = [metric, deviation] if metric is not None else []
    others = [name for name in metrics if name != metric]
    has_failed = [failed] if any(row[failed] for row in made) else []
    order = [*parameters, count, *has_failed, *leading, *others, SECONDS]
    made = [{name: row[name] for name in order} for row in made]
    return Averages(order, made, list(parameters), metric, deviation, count, failed)


def _leading(metrics: Sequence[str], groups: Iterable[Sequence[Row]], objective: str | None) -> str | None:
    if objective is not None:
        return next((name for name in (f"metric.{objective}", objective) if name in metrics), None)
    rows = [row for group in groups for row in group]
    return next((name for name in metrics if any(_is_number(row.get(name)) for row in rows)), None)


def _free(name: str, taken: Sequence[str]) -> str:
    """The name of a column of ours; a parameter or a metric that is called so keeps its name."""
    while name in taken:
        name = f"average.{name}"
    return name


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers; of anything else, and of what is always the same, what was found."""
    if not values or all(value == values[0] and type(value) is type(values[0]) for value in values):
        return values[0] if values else None
    if all(map(_is_number, values)):
        return (
            math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values) / len(values)
        )
    texts = [value if isinstance(value, str) else json.dumps(value, default=str) for value in values]
    return ", ".join(sorted(set(texts)))


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _order(value: Any) -> tuple[int, float, str]:
    """Blanks first, then numbers by size, then texts."""
    if value is None:
        return 0, 0.0, ""
    return (1, value, "") if _is_number(value) else (2, 0.0, str(value))
