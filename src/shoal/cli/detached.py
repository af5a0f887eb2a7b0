"""Commands about runs that were detached: most are given to the head as they are."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.cli.output import echo, echo_json, say
from shoal.errors import RunElsewhere, SpecError


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


def forward(arguments: Sequence[str], elsewhere: RunElsewhere) -> int:
    """Do with a detached run what the arguments say; the exit code."""
    from shoal.api.clusters import detached_runs

    at = list(arguments).index(elsewhere.asked)
    command, options = arguments[0], [*arguments[1:at], *arguments[at + 1 :]]
    if command == "resume":
        return _resume(elsewhere.run, options)
    if command == "get":
        echo(detached_runs.get(elsewhere.run, *_get_options(options)))
        return 0
    if command == "report":
        echo(detached_runs.report(elsewhere.run))
        return 0
    return detached_runs.attach([command, elsewhere.run, *options], elsewhere.run)


def _resume(run: str, options: Sequence[str]) -> int:
    from shoal.api.clusters import detached_runs

    found = detached_runs.resume(
        run, [option for option in ("--failed", "--take-over", "--json") if option in options], say
    )
    if isinstance(found, int):
        return found
    if "--json" in options:
        echo_json({"run": run, "state": found})
    say(f"{run} goes on, on its cluster. Look at it with: shoal logs {run} -f")
    return 0


def _get_options(options: Sequence[str]) -> tuple[str | None, str | None]:
    rest = list(options)
    to = None
    for number, option in enumerate(options):
        if option == "--to":
            to = options[number + 1]
            rest = [*options[:number], *options[number + 2 :]]
        elif option.startswith("--to="):
            to = option.removeprefix("--to=")
            rest = [*options[:number], *options[number + 1 :]]
    return (rest[0] if rest else None), to
