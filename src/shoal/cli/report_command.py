"""`report`: a run as a page."""

from __future__ import annotations

import click

from shoal.cli.options import run_argument
from shoal.cli.output import echo, echo_bytes


@click.command("report")
@run_argument
@click.option("--print", "printed", is_flag=True, hidden=True, help="Print the page itself.")
def report_command(run: str, printed: bool) -> None:
    """Write a page about a run, with charts, into its folder.

    Prints the path of report.html: one file that needs no other, to be opened in a browser. It shows the run as it is
    now, also while it goes on; another call writes it anew.
    """
    from shoal.reports import write

    path = write(run)
    if not printed:
        echo(path)
        return
    with open(path, "rb") as file:  # For a run that was detached: the page is wanted elsewhere.
        echo_bytes(file.read())
