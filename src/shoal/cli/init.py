"""`init` and `schema`: where a new workload file starts."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from shoal.cli.output import echo, echo_json, say
from shoal.errors import SpecError, unknown
from shoal.kinds import KINDS, workloads
from shoal.work.kind import kind_of

CLUSTER = """\
# Three virtual nodes on this machine. Try it: shoal run sweep.yaml --cluster cluster.yaml
# All keys: shoal schema cluster
kind: cluster
name: three
provider: local
engine: embedded     # nothing to start; without this line, real Ray nodes
nodes:
  - {host: node0, head: true, cpu: 1}
  - {host: node1, cpu: 1}
  - {host: node2, cpu: 1}
"""

*_NAMES, _LAST = KINDS
KIND_IS = f"KIND is {', '.join(_NAMES)} or {_LAST}."


@click.command(
    "init",
    help="Write a small working example into this folder.\n\n"
    f"{KIND_IS} Files that are there are never overwritten. Prints the names of the new files.",
)
@click.argument("kind", metavar="KIND")
def init_command(kind: str) -> None:
    files = samples_of(kind)
    present = [name for name in files if os.path.lexists(name)]
    if present:
        verb = "is" if len(present) == 1 else "are"
        raise SpecError(
            f"{', '.join(present)} {verb} here already, and nothing was written.",
            hint="Use an empty folder, or move them away.",
        )
    for name, text in files.items():
        _write(name, text)
        echo(name)
    first = next(iter(files))
    can_be_run = kind in workloads()
    say(f"Run it with: shoal run {first}" if can_be_run else f"Use it with: shoal run FILE --cluster {first}")


def samples_of(kind: str) -> Mapping[str, str]:
    """The files of a kind's example, by name. The first is the one to give to Shoal."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return kind_of(kind).samples() if kind in workloads() else {f"{kind}.yaml": CLUSTER}


def _write(name: str, text: str) -> None:
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SpecError(
            f"{name} cannot be written here: {error.strerror or error}.", hint="Use a folder of your own."
        ) from error


@click.command(
    "schema", help=f"Print the JSON schema of a kind of file, so that editors can complete it.\n\n{KIND_IS}"
)
@click.argument("kind", metavar="KIND")
def schema_command(kind: str) -> None:
    from shoal import spec

    echo_json(spec.schema(kind))
