"""`shoal cluster latency`: how far each node is from each location, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from shoal.cli import tables
from shoal.cli.options import file_argument, json_option
from shoal.cli.output import Row, ago, echo, echo_json, say
from shoal.units import format_seconds

if TYPE_CHECKING:
    from shoal.api.clusters.latency import LatencyRow

NEAREST = "*"


@click.command("latency")
@file_argument
@click.option("--refresh", is_flag=True, help="Measure again, however new the last measurement is.")
@json_option
def latency_command(file: str, refresh: bool, as_json: bool) -> None:
    """Say how far each node is from each location of FILE, and which node is the nearest.

    Measures from every node that can be reached, up or not, where that was not done within the last hour.
    """
    from shoal.api.clusters.latency import latency

    rows = latency(file, refresh=refresh)
    if as_json:
        echo_json([row._asdict() for row in rows])
    else:
        _show(rows)


def _show(rows: Sequence[LatencyRow]) -> None:
    locations = list(dict.fromkeys(row.location for row in rows))
    nodes = list(dict.fromkeys(row.node for row in rows))
    table = [_line(node, [row for row in rows if row.node == node]) for node in nodes]
    columns = [
        "node",
        *map(_column, locations),
        *(["measured"] if any(row["measured"] for row in table) else []),
    ]
    for line in tables.lines(columns, table):
        echo(line)
    if any(row.nearest for row in rows):
        say(f"{NEAREST} the nearest node; + how much longer the slowest of several round trips took.")
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.why:
            reasons.setdefault((row.node, row.why), []).append(row.location)
    for (node, why), where in reasons.items():
        say(f"{node} to {', '.join(where)}: {why.rstrip('.')}.")


def _column(location: str) -> str:
    return f"to {location}"


def _line(node: str, rows: Sequence[LatencyRow]) -> Row:
    """One node. Its age is that of its oldest measurement."""
    ages = [row.age_s for row in rows if row.age_s is not None]
    measured = {"measured": ago(max(ages)) if ages else ""}
    return {**{_column(row.location): _cell(row) for row in rows}, "node": node, **measured}


def _cell(row: LatencyRow) -> str:
    """`20ms +1.2ms *`; where it was not measured, what it is known from."""
    if row.min_s is None:
        return "?"
    aside = f"+{format_seconds(row.spread_s)}" if row.spread_s is not None else f"({row.source})"
    return " ".join((format_seconds(row.min_s), aside, *([NEAREST] if row.nearest else [])))
