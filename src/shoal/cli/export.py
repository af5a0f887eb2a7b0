"""`export`: a cluster or a workload as files for other systems."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from shoal.cli.group import file_argument
from shoal.cli.output import echo, say
from shoal.errors import SpecError

if TYPE_CHECKING:
    from shoal.cluster.containers.documents import Document


@click.command("export")
@file_argument
@click.option(
    "--to", required=True, metavar="TARGET", help="What to write for: kuberay, swarm, image or spark."
)
@click.option("--cluster", metavar="FILE", help="The cluster file, where FILE is a workload.")
@click.option("--out", metavar="FOLDER", help="Write files into this folder, not to stdout.")
def export_command(file: str, to: str, cluster: str | None, out: str | None) -> None:
    """Write a cluster or a workload down for another system.

    Starts nothing and changes nothing. With --out, a file that is there with other contents is never
    overwritten, and the names of the files are printed.
    """
    from shoal.api.clusters.export_files import export

    exported = export(file, to, cluster=cluster)
    if out is None:
        _print(exported.documents)
    else:
        for path in _write(out, exported.documents):
            echo(path)
    for note in exported.notes:
        say(note)


def _print(documents: Sequence[Document]) -> None:
    """One file as it is; several with the name of each above it."""
    for document in documents:
        if len(documents) > 1:
            echo(f"# {document.name}")
        echo(document.text, end="")


def _write(folder: str, documents: Sequence[Document]) -> list[str]:
    """All of them, or none."""
    paths = [os.path.join(folder, document.name) for document in documents]
    others = [path for path, each in zip(paths, documents, strict=True) if not _may_write(path, each.text)]
    if others:
        verb = "is" if len(others) == 1 else "are"
        raise SpecError(
            f"{', '.join(others)} {verb} there with other contents, and nothing was written.",
            hint="Name another folder, or move them away.",
        )
    try:
        os.makedirs(folder, exist_ok=True)
        for path, document in zip(paths, documents, strict=True):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(document.text)
    except OSError as error:
        raise SpecError(
            f"{folder} cannot be written to: {error.strerror or error}.", hint="Name a folder of your own."
        ) from error
    return paths


def _may_write(path: str, text: str) -> bool:
    """Whether nothing else would be lost."""
    if not os.path.lexists(path):
        return True
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read() == text
    except (OSError, UnicodeDecodeError):
        return False
