"""Runs that are detached, and commands about them: most are given to the head, as they were typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from shoal.cli.output import echo, echo_json, say
from shoal.errors import SpecError


def detach(file: str, cluster: str | None, sets: Sequence[str], limit: int | None, as_json: bool) -> int:
    """Hand a workload to its cluster, and print the id of the run."""
    from shoal.api.clusters import detached_runs

    if cluster is None:
        raise SpecError(
            "--detach needs --cluster: on this machine a run's driver lives in its terminal.",
            hint="Start it in tmux or with nohup; a run that was cut off goes on with `shoal resume`.",
        )
    run, state = detached_runs.detach(file, cluster, sets, limit, say)
    if as_json:
        echo_json({"run": run, "state": state, "cluster": cluster})
    else:
        echo(run)
        say(f"It goes on by itself. Look: shoal show {run}, shoal logs {run} -f. End it: shoal stop {run}")
    return 0


def refuse_plan(plan: str | None) -> None:
    """A plan does not travel."""
    if plan is not None:
        raise SpecError(
            "A run that is handed to its cluster cannot follow a saved plan: it plans there.",
            hint="Leave out --plan; `--set` can pin settings.",
        )


def detach_and_follow(file: str, cluster: str, sets: Sequence[str], limit: int | None, as_json: bool) -> int:
    """Hand a workload to a cluster that is driven from inside, and stay with it; the exit code."""
    from shoal.api.clusters import detached_runs

    run, _ = detached_runs.detach(file, cluster, sets, limit, say)
    say(f"{run} runs on its cluster. Ctrl-C leaves it alone; end it with: shoal stop {run}")
    return detached_runs.follow(run, as_json)


def obey(run: str, command: click.Command, given: Mapping[str, Any]) -> int:
    """Do with a detached run what a command was given for it; the exit code. Most is done on its head."""
    from shoal.api.clusters import detached_runs

    if command.name == "resume":
        return _resume(run, given["failed"], given["take_over"], given["as_json"])
    if command.name == "get":
        echo(detached_runs.get(run, given["item"], given["to"]))
        return 0
    if command.name == "report":
        echo(detached_runs.report(run))
        return 0
    item = [given["item"]] if given.get("item") else []
    return detached_runs.attach(run, [str(command.name), *_typed(command, given), "--", run, *item])


def _typed(command: click.Command, given: Mapping[str, Any]) -> Iterator[str]:
    """The options of a command as they would be typed."""
    for option in command.params:
        value = given[str(option.name)]
        if isinstance(option, click.Option) and value not in (None, False):
            yield option.opts[-1] if option.is_flag else f"{option.opts[-1]}={value}"


def _resume(run: str, failed: bool, take_over: bool, as_json: bool) -> int:
    from shoal.api.clusters import detached_runs

    found = detached_runs.resume(run, say, failed=failed, take_over=take_over, as_json=as_json)
    if isinstance(found, int):
        return found
    if as_json:
        echo_json({"run": run, "state": found})
    say(f"{run} goes on, on its cluster. Look at it with: shoal logs {run} -f")
    return 0
