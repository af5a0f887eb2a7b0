"""`shoal cluster ...`: bringing clusters up and down, and looking at them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from shoal.cli import tables
from shoal.cli.latency_table import latency_command
from shoal.cli.options import file_argument, json_option
from shoal.cli.output import Row, ago, echo, echo_json, say, timestamp
from shoal.units import format_size

if TYPE_CHECKING:
    from shoal.cluster.base import NodeStatus

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
    Exit code 1 when some nodes, but not the head, could not be had.
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
    """Start JupyterLab on the head, and open a way to it.

    Prints the address to open in a browser on this machine. The way stays open until Ctrl-C; the notebook runs on
    until the cluster ends.
    """
    from shoal.api.clusters import lifecycle
    from shoal.cluster.here import Here

    address, close = lifecycle.notebook(file)
    echo(address)
    sys.stdout.flush()
    say("Ctrl-C closes the way; the notebook runs on until the cluster ends.")
    try:
        while True:
            Here().pause(3600)
    finally:
        close()


def _show(nodes: list[NodeStatus], as_json: bool) -> None:
    if as_json:
        echo_json([_document(node) for node in nodes])
        return
    from shoal.cluster.here import Here

    now_s = Here().now()
    rows = [_row(node, now_s) for node in nodes]
    shown = [name for name in COLUMNS if any(row[name] not in ("", 0) for row in rows) or name == "cpu"]
    for line in tables.lines(shown, rows):
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
