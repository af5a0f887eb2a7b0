"""Result rows: what people see of items, one row each. Reads only; files of them are made in `results`."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from shoal.model import ItemState
from shoal.store import meta
from shoal.store.encode import number, readable
from shoal.store.items import pages
from shoal.store.records import ItemRecord, counted_attempt

Row = dict[str, Any]

_BEFORE = ("item", "state")
_AFTER = ("seconds", "attempt", "node", "started", "error")
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_RESERVED = frozenset(_BEFORE + _AFTER)


class Columns(NamedTuple):
    """The columns of a run's rows: parameters in the table's order, metrics in order of first appearance."""

    params: tuple[str, ...]
    metrics: Mapping[str, str]
    """From the metric's name to its column."""

    @classmethod
    def of(cls, params: Iterable[str], metrics: Iterable[str]) -> Columns:
        """A metric named like a parameter or a reserved word gets the column `metric.NAME`."""
        given = tuple(params)
        taken, columns = _RESERVED.union(given), {}
        for name in metrics:
            column = name
            while column in taken:
                column = f"metric.{column}"
            taken |= {column}
            columns[name] = column
        return cls(given, columns)

    def names(self) -> list[str]:
        """All columns, in order."""
        return [*_BEFORE, *self.params, *self.metrics.values(), *_AFTER]


def read_columns(connection: sqlite3.Connection) -> Columns:
    """As far as items are committed; kept up to date by the journal, so no item is read."""
    known = meta.read(connection, ("params", "metrics"))
    return Columns.of(known.get("params", ()), known.get("metrics", ()))


def result_row(record: ItemRecord, columns: Columns) -> Row:
    """The row of one item. It has every column; what the item does not have is None."""
    item = record.item
    return _row(
        columns,
        item.id,
        record.state,
        item.params,
        record.metrics,
        (
            record.seconds,
            record.attempt,
            record.node,
            timestamp(record.started),
            record.error and _without_controls(record.error),
        ),
    )


def rows(connection: sqlite3.Connection, states: Sequence[str] | None = None) -> Iterator[Row]:
    """All rows, or those of items in these states, in the order of the items."""
    columns = read_columns(connection)
    for item, state, params, _, metrics, last in results(connection, states):
        yield _row(columns, item, state, params, metrics, last)


def best(connection: sqlite3.Connection, metric: str, goal: str, count: int) -> list[Row]:
    """The best rows of items that are done, best first; the earlier item first among equals.

    `metric` is a metric's name, or its column. What is no number, or NaN, never wins.
    """
    from heapq import nsmallest

    columns = read_columns(connection)
    name = next((name for name, column in columns.metrics.items() if column == metric), metric)
    sign = -1 if goal == "max" else 1
    found = nsmallest(count, _scored(connection, name, sign), key=itemgetter(0))
    return [
        _row(columns, item, state, params, metrics, last)
        for _, (item, state, params, _, metrics, last) in found
    ]


Result = tuple[str, str, dict[str, Any], dict[str, str] | None, dict[str, Any], tuple[Any, ...]]
"""An item as rows need it: id, state, parameters, their exact texts, metrics, and the last columns."""


def results(connection: sqlite3.Connection, states: Sequence[str] | None = None) -> Iterator[Result]:
    """What rows are made of, in the order of the items."""
    columns = "seq, id, state, params, texts, metrics, seconds, used, node, started, error"
    for page in pages(connection, columns, states):
        params, metrics = readable([raw[3] for raw in page]), readable([raw[5] for raw in page])
        for raw, given, measured in zip(page, params, metrics, strict=True):
            texts = json.loads(raw[4]) if raw[4] else None
            attempt, error = counted_attempt(raw[2], raw[7], raw[9]), raw[10] and _without_controls(raw[10])
            last = (raw[6], attempt, raw[8], timestamp(raw[9]), error)
            yield raw[1], raw[2], given, texts, measured, last


def _without_controls(error: str) -> str:
    """Errors quote log lines: what in them would move or colour a terminal goes. Lines and tabs stay."""
    return error if error.isprintable() else _CONTROLS.sub("", error)


def timestamp(at: float | None) -> str | None:
    """ISO-8601 in UTC, to the millisecond."""
    if at is None:
        return None
    second, millisecond = divmod(round(at * 1e6) // 1000, 1000)
    return f"{_second(second)}.{millisecond:03d}Z"


@lru_cache(maxsize=256)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _scored(connection: sqlite3.Connection, metric: str, sign: int) -> Iterator[tuple[float, Result]]:
    for result in results(connection, (ItemState.DONE,)):
        value = number(result[4].get(metric))
        if value is not None:
            yield sign * value, result


def _row(
    columns: Columns,
    identity: str,
    state: str,
    params: Mapping[str, Any],
    metrics: Mapping[str, Any],
    last: Iterable[Any],
) -> Row:
    row: Row = {"item": identity, "state": state}
    for name in columns.params:
        row[name] = params.get(name)
    for name, column in columns.metrics.items():
        row[column] = metrics.get(name)
    row.update(zip(_AFTER, last, strict=True))
    return row
