"""`init` and `schema`: where a new workload file starts."""

from __future__ import annotations

import os

import click

from shoal.cli.output import echo, echo_json, say
from shoal.errors import SpecError, unknown


@click.command("init")
@click.argument("kind", metavar="KIND")
def init_command(kind: str) -> None:
    """Write a small working example into this folder.

    KIND is sweep, infer or cluster. Files that are there are never overwritten. Prints the names of the new files.
    """
    from shoal.cli.samples import NEXT, SAMPLES

    if kind not in SAMPLES:
        raise unknown("kind", kind, SAMPLES)
    files = SAMPLES[kind]
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
    say(NEXT[kind])


def _write(name: str, text: str) -> None:
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SpecError(
            f"{name} cannot be written here: {error.strerror or error}.", hint="Use a folder of your own."
        ) from error


@click.command("schema")
@click.argument("kind", metavar="KIND")
def schema_command(kind: str) -> None:
    """Print the JSON schema of a kind of file, so that editors can complete it.

    KIND is sweep, infer or cluster.
    """
    from shoal import spec

    echo_json(spec.schema(kind))
