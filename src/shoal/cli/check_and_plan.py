"""`check` and `plan`: what can be said of a workload before anything is started."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from shoal import words
from shoal.cli.group import cluster_option, file_argument, json_option, set_option
from shoal.cli.output import echo, echo_json, say
from shoal.work.kind import kind_of

if TYPE_CHECKING:
    from shoal.api.whatif import Probed
    from shoal.model import Plan, Prediction

MOST_NODES = 10_000
MOST_QUESTIONS = 100
"""Numbers of nodes that one `--nodes A..B` is answered for."""


class NodeCounts(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """`60`, or `1..60`."""

    name = "N|A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        match = re.fullmatch(r"(\d{1,6})(?:\.\.(\d{1,6}))?", value, re.ASCII)
        if match is None:
            self.fail(f"expected a number such as 60, or a range such as 1..60, found {value!r}.", param, ctx)
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= MOST_NODES:
            self.fail(
                f"expected 1 to {MOST_NODES} nodes, the smaller number first, found {value!r}.", param, ctx
            )
        step = max(1, -(-(last - first + 1) // MOST_QUESTIONS))
        counts = list(range(first, last + 1, step))
        return counts if counts[-1] == last else [*counts, last]


@click.command("check")
@file_argument
@cluster_option
@set_option
def check_command(file: str, cluster: str | None, sets: tuple[str, ...]) -> None:
    """Find everything that is wrong with a workload, without starting it.

    Says so and exits with 2 when something is; otherwise says what the workload is.
    """
    from shoal.api.runs import check

    prepared = check(file, cluster=cluster, sets=sets)
    total = prepared.job.total()
    item = kind_of(prepared.spec.kind).item
    items = "" if total is None else f" of {total} {words.named(total, item)}"
    echo(f"{file}: {prepared.spec.kind} {prepared.spec.name}{items}: nothing wrong was found.")


@click.command("plan")
@file_argument
@cluster_option
@set_option
@click.option("--nodes", "counts", type=NodeCounts(), help="Ask how long it would take on so many nodes.")
@click.option("--probe", is_flag=True, help="Run a few items first, to know how long they take.")
@json_option
def plan_command(
    file: str,
    cluster: str | None,
    sets: tuple[str, ...],
    counts: list[int] | None,
    probe: bool,
    as_json: bool,
) -> None:
    """Say what would happen, why, and how long it would take.

    Starts nothing, except with --probe, which runs a few items to measure them.
    """
    from shoal.api import runs

    if probe:
        from shoal.api.whatif import probe as measure

        _tell_probe(measure(file, cluster=cluster, sets=sets))
    found = runs.plan(file, cluster=cluster, sets=sets, to_save=as_json)
    answers: Sequence[tuple[int, Prediction | None]] = ()
    if counts:
        from shoal.api.whatif import whatif

        answers = whatif(file, counts, cluster=cluster, sets=sets)
    if as_json:
        echo_json(_document(found, answers, asked=counts is not None))
    else:
        _tell(found, answers)


def _tell_probe(probed: Probed) -> None:
    run, counts = probed.summary.run, words.counts(probed.summary.items)
    if probed.goes_on:
        say(f"Measured with {counts} in {run}.")
        say(f"Nothing of it is lost: shoal resume {run} goes on from there.")
    elif probed.summary.state == "failed":
        say(f"The probe failed with {counts}; why: shoal show {run}")
    else:
        say(f"Measured with {counts}, in an output of their own that is gone again.")


def _document(plan: Plan, answers: Sequence[tuple[int, Prediction | None]], *, asked: bool) -> dict[str, Any]:
    document = plan.document()
    if asked:
        document["nodes"] = [
            {"nodes": nodes, "predicted_seconds": prediction._asdict() if prediction else None}
            for nodes, prediction in answers
        ]
    return document


def _tell(plan: Plan, answers: Sequence[tuple[int, Prediction | None]]) -> None:
    item = kind_of(plan.kind).item
    items = "" if plan.items is None else f"{plan.items} {words.named(plan.items, item)} on "
    echo(f"{plan.kind} {plan.name}: {items}{plan.workers} {words.named(plan.workers, 'worker')}")
    echo(f"predicted: {_in_words(plan.predicted_seconds)}")
    for decision in plan.decisions:
        echo(f"{decision.name}: {words.choice(decision.name, decision.choice)}\n    {decision.why}")
    nodes = Counter(placement.node for placement in plan.placements)
    for node, count in nodes.items():
        echo(f"on {node}: {count} {words.named(count, item)}")
    for count, prediction in answers:
        echo(f"with {count} {words.named(count, 'node')}: {_in_words(prediction)}")


def _in_words(prediction: Prediction | None) -> str:
    return "unknown" if prediction is None else words.prediction(prediction._asdict())
