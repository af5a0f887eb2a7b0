"""`stop`, `logs`, `get` and `rm`: what can be done with a run that is there."""

from __future__ import annotations

import click

from shoal.cli.group import command_of_run, hidden_json_option, item_argument
from shoal.cli.output import echo, echo_bytes, echo_json, say
from shoal.errors import RunElsewhere, ShoalError, SpecError


@command_of_run("stop")
def stop_command(run: str) -> int:
    """Ask a run to end, and wait until it has.

    Items in flight are stopped cleanly, and wait for a resume.
    """
    from shoal.api import runs
    from shoal.api.views.lookup import open_run

    with open_run(run) as store:
        name = store.run
    state = runs.stop(name)
    if state.is_active:
        say(f"{name} was asked to stop, but is still {state}.")
        return 1
    say(f"{name}: {state}. Go on with: shoal resume {name}")
    return 0


@command_of_run("logs")
@item_argument
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the run has ended.")
def logs_command(run: str, item: str | None, follow: bool) -> None:
    """Print what a run, or one of its items, wrote to its output."""
    from shoal.api.views import lookup

    for block in lookup.logs(run, item, follow=follow):
        echo_bytes(block)


@command_of_run("get")
@item_argument
@click.option("--to", metavar="FOLDER", help="Where to; without it, a new folder named after the run.")
def get_command(run: str, item: str | None, to: str | None) -> None:
    """Copy the files that a run, or one of its items, left in SHOAL_ITEM_DIR.

    Prints the folder they were copied to.
    """
    from shoal.api.views import lookup

    try:
        echo(lookup.get(run, item, to=to))
    except OSError as error:
        raise SpecError(
            f"The files cannot be copied: {error}.", hint="Name a folder that can be written with --to."
        ) from error


@click.command("rm")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@hidden_json_option
def rm_command(runs: tuple[str, ...], as_json: bool) -> None:
    """Delete runs and everything they kept. A run that is being driven is refused."""
    errors: list[ShoalError] = []
    for run in runs:
        try:
            say(f"Removed {_remove(run)}.")
        except ShoalError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SpecError("\n       ".join(str(error) for error in errors), hint=errors[0].hint)
    if as_json:
        echo_json({"removed": list(runs)})


def _remove(run: str) -> str:
    from shoal.api.views import lookup

    try:
        return lookup.remove(run)
    except RunElsewhere as elsewhere:
        from shoal.api.clusters import detached_runs

        return detached_runs.remove(elsewhere.run, say)
