"""What is printed of the averages of a run: all of them, or at the end of a run those that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.api.views.lookup import averages
from shoal.cli import tables
from shoal.cli.output import echo, echo_csv, echo_json_rows, say

if TYPE_CHECKING:
    from shoal.api.views.averages import Averages
    from shoal.store import RunStore

SPREAD = "±"
"""How people write the standard deviation."""
ROWS_SHOWN = 50


def echo_averages(store: RunStore, form: str, best: int | None) -> None:
    """All columns, in one of the formats of `shoal results`."""
    found = averages(store, best=best)
    if form == "json":
        echo_json_rows(found.rows)
    elif form == "csv":
        echo_csv(found.columns, (row.values() for row in found.rows))
    else:
        _show(found, found.columns)


def _show(found: Averages, columns: Sequence[str]) -> None:
    """A table, in which the deviation is headed by its sign."""
    heads = {name: SPREAD if name == found.deviation else name for name in columns}
    rows = [{heads[name]: row[name] for name in columns} for row in found.rows]
    keep = [heads[name] for name in (*found.parameters, found.metric, found.deviation) if name in heads]
    hidden = tables.show([heads[name] for name in columns], rows, keep)
    if hidden:
        names = words.shortened(", ".join(hidden), 60)
        say(f"No room for: {names}; --format csv has all columns.")


def tell_averages(store: RunStore) -> list[str]:
    """The parameters that differ and what counts most; the lines that are to be said of them."""
    found = averages(store)
    shown = found._replace(rows=found.rows[:ROWS_SHOWN])
    differing = tables.telling(found.parameters, found.rows)
    wanted = {*differing, found.counted, found.failed, found.metric, found.deviation, "seconds"}
    if found.rows:
        _show(shown, [name for name in found.columns if name in wanted])
    objective = store.info().objective
    best = found.best(objective[1], 1) if objective is not None else []
    if best and found.metric is not None:
        echo(f"Best on average: {_in_words(best[0], found, found.metric)}")
    what = (
        f"the first {ROWS_SHOWN} of {len(found.rows)} averages"
        if len(found.rows) > ROWS_SHOWN
        else "averages"
    )
    return ["", f"Shown are {what}; all their numbers: shoal results {store.run} --average"]


def _in_words(row: dict[str, Any], found: Averages, metric: str) -> str:
    spread = row[found.deviation]
    apart = f" {SPREAD} {words.number(spread)}" if spread is not None else ""
    params = words.parameters({name: row[name] for name in found.parameters}, 200)
    return f"{metric} {words.number(row[metric])}{apart} with {params} (of {row[found.counted]})"
