"""`run` and `resume`, as click has them. What they do is in `foreground`."""

from __future__ import annotations

import click

from shoal.cli import foreground
from shoal.cli.group import cluster_option, command_of_run, file_argument, json_option, set_option
from shoal.errors import SpecError


@click.command("run")
@file_argument
@cluster_option
@set_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Try only the first N items.")
@click.option("--detach", is_flag=True, help="Hand the run to the cluster, print its id, and return.")
@click.option("--inline", is_flag=True, help="Run items in this process, one at a time, for a debugger.")
@click.option("--plan", metavar="FILE", help="Follow a plan that `shoal plan --json` printed.")
@click.option("--id", "run", metavar="RUN", hidden=True, help="The id that the run gets.")
@json_option
def run_command(
    file: str,
    cluster: str | None,
    sets: tuple[str, ...],
    limit: int | None,
    detach: bool,
    inline: bool,
    plan: str | None,
    run: str | None,
    as_json: bool,
) -> int:
    """Plan a workload, then run it.

    FILE is a workload file. On a terminal a live display shows how far it is; otherwise a line now and then
    does. Ctrl-C stops the run cleanly; `shoal resume` goes on with it.
    """
    if detach and inline:
        raise SpecError(
            "A workload runs inline, in this process, or is handed to a cluster, not both.",
            hint="Leave out --inline, or --detach.",
        )
    if detach:
        from shoal.cli import detached

        detached.refuse_plan(plan)
        return detached.detach(file, cluster, sets, limit, as_json)
    return foreground.run(file, cluster, sets, limit, as_json, inline, plan, run)


@command_of_run("resume")
@click.option("--failed", is_flag=True, help="Take the failed items again, too.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Replace a driver that was heard of within a minute: for one that is gone for good.",
)
@click.option(
    "--trust", is_flag=True, help="Run a function that came by value from a storage that others write to."
)
@cluster_option
@json_option
def resume_command(
    run: str, failed: bool, take_over: bool, trust: bool, cluster: str | None, as_json: bool
) -> int:
    """Go on where a stopped, failed or killed run was.

    What is done stays done. Rows that were added to the table since then become new items. On a run that
    succeeded there is nothing to do, and its summary is printed. A driver that is alive, or that cannot be seen from
    here and was heard of within a minute, is replaced only with --take-over.
    """
    return foreground.resume(run, failed, cluster, take_over, trust, as_json)
