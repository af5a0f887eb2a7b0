"""`shoal cluster ...`: bringing clusters up and down, looking at them, and how far their nodes are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from shoal.cli import output
from shoal.cli.group import file_argument, json_option
from shoal.cli.output import Row, ago, echo, echo_json, say, timestamp
from shoal.units import format_seconds, format_size

if TYPE_CHECKING:
    from shoal.api.clusters.latency import LatencyRow
    from shoal.cluster.base import NodeStatus


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
        _show_latency(rows)


def _show_latency(rows: Sequence[LatencyRow]) -> None:
    locations = list(dict.fromkeys(row.location for row in rows))
    nodes = list(dict.fromkeys(row.node for row in rows))
    table = [_line(node, [row for row in rows if row.node == node]) for node in nodes]
    columns = [
        "node",
        *map(_column, locations),
        *(["measured"] if any(row["measured"] for row in table) else []),
    ]
    for line in output.lines(columns, table):
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


COLUMNS = ("host", "state", "cpu", "memory", "gpu", "speed", "measured", "labels", "note")
OLD_S = 7 * 86400.0
"""What a host has may change: it gets memory, a quota, another Python."""


@click.group("cluster")
def cluster_command() -> None:
    """Bring clusters up and down, and look at them. FILE is a cluster file."""


@cluster_command.command("up")
@file_argument
@json_option
def up_command(file: str, as_json: bool) -> int:
    """Start every node that is not up, and say what each has.

    May be repeated: what is up stays as it is, what died is brought back, and what is no longer in the file ends.
    Exit code 1 when some nodes, but not the head, could not be started.
    """
    from shoal.api.clusters import lifecycle

    failed = lifecycle.up(file, say)
    _show(lifecycle.status(file), as_json)
    return 1 if failed else 0


@cluster_command.command("down")
@file_argument
def down_command(file: str) -> None:
    """End every node, and leave nothing of the cluster behind. Runs on it are cut off, and can be resumed."""
    from shoal.api.clusters import lifecycle

    lifecycle.down(file, say)


@cluster_command.command("status")
@file_argument
@click.option("--refresh", is_flag=True, help="Measure again what the hosts have.")
@json_option
def status_command(file: str, refresh: bool, as_json: bool) -> None:
    """Say which nodes there are, whether they are up, and what they have."""
    from shoal.api.clusters import lifecycle

    _show(lifecycle.status(file, refresh=refresh), as_json)


cluster_command.add_command(latency_command)


@cluster_command.command("scale")
@file_argument
@click.argument("count", metavar="N", type=click.IntRange(min=1))
@json_option
def scale_command(file: str, count: int, as_json: bool) -> int:
    """Start or end nodes until N are up, the head among them.

    Where the file has scale:, runs start more by themselves, and nodes that stand idle end.
    """
    from shoal.api.clusters import lifecycle

    failed = lifecycle.scale(file, count, say)
    _show(lifecycle.status(file), as_json)
    return 1 if failed else 0


@cluster_command.command("notebook")
@file_argument
def notebook_command(file: str) -> None:
    """Start JupyterLab on the head, and open a tunnel to it.

    Prints the address to open in a browser on this machine. The way stays open until Ctrl-C; the notebook runs on
    until the cluster ends.
    """
    from shoal.api.clusters import lifecycle
    from shoal.cluster.this_machine import Here

    address, close = lifecycle.notebook(file)
    echo(address)
    sys.stdout.flush()
    say("Ctrl-C closes the tunnel; the notebook runs on until the cluster ends.")
    try:
        while True:
            Here().pause(3600)
    finally:
        close()


def _show(nodes: list[NodeStatus], as_json: bool) -> None:
    if as_json:
        echo_json([_document(node) for node in nodes])
        return
    from shoal.cluster.this_machine import Here

    now_s = Here().now()
    rows = [_row(node, now_s) for node in nodes]
    shown = [name for name in COLUMNS if any(row[name] not in ("", 0) for row in rows) or name == "cpu"]
    for line in output.lines(shown, rows):
        echo(line)
    old = [node.host for node in nodes if node.measured_s is not None and now_s - node.measured_s > OLD_S]
    if old:
        say(f"Measured more than a week ago: {', '.join(old)}. `--refresh` measures again.")


def _row(status: NodeStatus, now_s: float) -> Row:
    node = status.node
    return {
        "host": status.host,
        "state": status.state,
        "cpu": node.cpu,
        "memory": format_size(node.memory_bytes) if node.memory_bytes else "",
        "gpu": node.gpu,
        "speed": f"{node.speed:.2f}",
        "measured": "" if status.measured_s is None else ago(now_s - status.measured_s),
        "labels": " ".join(f"{name}={value}" for name, value in node.labels.items()),
        "note": ", ".join(text for text in ("head" if status.head else "", status.why) if text),
    }


def _document(status: NodeStatus) -> Row:
    node = status.node
    return {
        "host": status.host,
        "state": status.state,
        "head": status.head,
        "cpu": node.cpu,
        "memory_bytes": node.memory_bytes,
        "gpu": node.gpu,
        "speed": node.speed,
        "measured": timestamp(status.measured_s),
        "labels": dict(node.labels),
        "requested": timestamp(status.requested_s),
        "ready": timestamp(status.ready_s),
        "why": status.why,
    }
