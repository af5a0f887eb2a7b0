"""The plan of an inference, and the prediction of how long it takes, from earlier runs and the inputs listed now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shoal.engine import room
from shoal.errors import ShoalError, SpecError
from shoal.model import Decision, Node, Plan, Prediction
from shoal.planner.scalability import Nodes, work_s
from shoal.units import format_number, format_share
from shoal.work.infer.tuners import SHORTEST_S, Tuning, machine_of
from shoal.work.job import Learned
from shoal.work.models.libraries import WITH_CUDA

if TYPE_CHECKING:
    from shoal.work.infer.job import InferJob


COUNT_S, ASKED_S = 1.0, 20.0
"""So long inputs are counted for a plan, and where somebody asks for nothing but how long it takes."""
SPREAD = 0.12
"""How far a run may lie from what is predicted from the last one, as a share of it."""
RUN_IT = "run it once, or add --probe"

Groups = Mapping[str, tuple[Node, int]]
"""By the kind of node: one of them, and how many there are."""


class Outlook(NamedTuple):
    """How long it takes; where that is not known, why, and what to do about it."""

    prediction: Prediction | None
    why: str
    advice: str = ""


def groups_of(job: InferJob, nodes: Sequence[Node]) -> Groups:
    found: dict[str, tuple[Node, int]] = {}
    for node in nodes:
        kind = machine_of(node, job.need).kind
        found[kind] = (found[kind][0] if kind in found else node, found.get(kind, (node, 0))[1] + 1)
    return found


def recalled(job: InferJob, nodes: Sequence[Node], learned: Learned) -> Tuning:
    """Tuners that know what earlier runs found out."""
    return Tuning(job.spec.tune, job.runtimes(), job.need, learned, job.missing(), nodes=lambda: nodes)


def measured(learned: Learned) -> set[str]:
    """The kinds of node on which an earlier run got as far as to measure something."""
    return {kind for kind, document in learned.items() if (document.get("chosen") or {}).get("rate")}


def outlook(job: InferJob, groups: Groups, learned: Learned, *, asked: bool = False) -> Outlook:
    """On these nodes. Blocks while inputs are counted, once for a job; longer where it was `asked` for."""
    if not groups:
        return Outlook(None, "no node has room for a worker", "ask for less in resources:")
    if not measured(learned):
        return Outlook(None, "this model has not been run here before, with inputs like these", RUN_IT)
    known: dict[str, Nodes] = {}
    for kind, (node, _) in groups.items():
        tuner = recalled(job, [node], learned).tuner_of(node.host)
        rate = tuner.rate()
        if kind not in measured(learned) or rate is None:
            return Outlook(None, f"this model has not been run on nodes like {node.host} before", RUN_IT)
        known[kind] = Nodes.read(rate, tuner.chosen()[1], learned[kind])
    try:
        found, is_all = job.count_inputs(ASKED_S if asked else COUNT_S)
    except ShoalError as error:
        return Outlook(None, f"the inputs cannot be listed: {str(error).rstrip('.')}", error.hint or "")
    if not is_all:
        return _uncounted(job, found, min(each.rate for each in known.values()), asked=asked)
    startup_s = max((float(learned[kind].get("startup_s", 0.0)) for kind in groups), default=0.0)
    return _predicted(job, groups, known, found, startup_s)


def predict(job: InferJob, node: Node, count: int, learned: Learned) -> Prediction:
    """On so many nodes like this one; raises `SpecError` when that is not known."""
    room.ensure_possible([job.need], [node])
    found = outlook(job, {machine_of(node, job.need).kind: (node, count)}, learned, asked=True)
    if found.prediction is None:
        advice = found.advice.rstrip(".")
        hint = f"{advice[0].upper()}{advice[1:]}." if advice else None
        raise SpecError(f"Nothing can be predicted: {found.why}.", hint=hint)
    return found.prediction


def _predicted(
    job: InferJob, groups: Groups, known: Mapping[str, Nodes], inputs: int, startup_s: float
) -> Outlook:
    """Every node pays for its start at the same time as the others."""
    counts = {kind: count for kind, (_, count) in groups.items()}
    wanted = sum(known[kind].workers * count for kind, count in counts.items())
    workers = min(wanted, job.policy.concurrent or wanted)

    def seconds(rate: float) -> float:
        return startup_s + work_s(inputs, rate * workers / wanted, workers, SHORTEST_S, job.spec.tune.item)

    rate = sum(known[kind].independent(count) for kind, count in counts.items())
    why = "from the rate of the last run, the inputs there are, and what workers took to start"
    if workers < wanted:
        why += f"; limits.concurrent allows {workers} of {wanted} workers"
    middle = best = worst = seconds(rate)
    if len(counts) == 1:  # How those of different kinds are in each other's way was never watched.
        ((kind, count),) = counts.items()
        nodes = known[kind]
        middle = best = worst = seconds(nodes.together(count))
        if nodes.law() is not None and count > max(nodes.by_nodes):
            best, worst = seconds(rate), seconds(nodes.together(max(nodes.by_nodes)))
        why += _why_together(nodes, count)
    wide = SPREAD * middle + 0.5
    low, high = max(0.0, min(middle, best) - wide), max(middle, worst) + wide
    return Outlook(Prediction(low, middle, high), why)


def _why_together(known: Nodes, count: int) -> str:
    if count == known.seen:
        return ""
    if known.law() is None:
        them = f"{known.seen} node{' was' if known.seen == 1 else 's were'} at work then"
        return f"; {them}, and {count} are taken not to be in each other's way"
    numbers = [str(number) for number in sorted(known.by_nodes)]
    return (
        "; what so many nodes do is the law of scalability, fitted to runs on"
        f" {', '.join(numbers[:-1])} and {numbers[-1]} nodes"
    )


def _uncounted(job: InferJob, found: int, rate: float, *, asked: bool) -> Outlook:
    counted_s = ASKED_S if asked else COUNT_S
    why = (
        f"the inputs could not be counted within {counted_s:g} s: {found:,} were found so far, and a node does"
        f" {format_number(rate)} inputs/s"
    )
    if not asked:
        return Outlook(None, why, "with --nodes N they are counted for longer")
    part = f"--set input.{job.spec.input.kind}=PATTERN"
    return Outlook(None, why, f"divide their number by that, or ask for a part of them with {part}")


def plan(job: InferJob, nodes: Sequence[Node], learned: Learned) -> Plan:
    capacity = room.capacity(job.need, nodes)
    usable = [node for node in nodes if job.need.refusal(node) is None]
    groups = groups_of(job, usable)
    known = measured(learned) & set(groups)
    found = outlook(job, groups, learned)
    decisions = (
        _places(job, usable, capacity),
        *_device(job, nodes),
        *(_tuned(job, usable, learned) if known else _to_tune(job)),
        Decision(
            "output", job.spec.output.path, "a Parquet part for each item, written once and never replaced"
        ),
        Decision("errors", format_share(job.spec.limits.errors), _why_errors(job)),
        _foretold(found),
    )
    return Plan(job.kind, job.name, None, capacity, found.prediction, decisions)


def _places(job: InferJob, nodes: Sequence[Node], capacity: int) -> Decision:
    """How many workers there may be; how many of them work at the same time is another question."""
    cpu = sum(node.cpu for node in nodes)
    where = f"{nodes[0].host} has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    each = f"{job.need.cpu:g} CPU" + (f" and {job.need.gpu:g} GPU" if job.need.gpu else "")
    return Decision("places", capacity, f"{where} {cpu:g} CPU in all; a worker holds {each}")


def _device(job: InferJob, nodes: Sequence[Node]) -> list[Decision]:
    """Said where a GPU stays idle, or may do so, and where a node does for want of one."""
    asked, library = job.spec.model.device, job.library
    with_gpu = [node.host for node in nodes if node.gpu]
    if not with_gpu or asked == "cpu" or job.spec.resources.gpu == 0:
        return []
    one = len(with_gpu) == 1
    told = [f"{with_gpu[0]} has a GPU" if one else f"{len(with_gpu)} nodes have GPUs"]
    if library is not None and job.on_processors():
        it = "it" if one else "them"
        told.append(f"the {library} that is installed cannot use {it}: install {WITH_CUDA[library]}")
        return [Decision("device", "cuda" if asked == "cuda" else "cpu", "; ".join(told))]
    if library is not None and not job.knows_packages:
        there = "what requirements: brings" if job.spec.requirements else "what is installed there"
        told.append(f"used if {there} can: that takes {WITH_CUDA[library]}")
    if job.need.gpu and len(with_gpu) < len(nodes):
        told.append("nodes without one get no work; with model.device: cpu all of them do")
    return [Decision("device", "cuda", "; ".join(told))] if told[1:] else []


def _to_tune(job: InferJob) -> list[Decision]:
    tune, ways = job.spec.tune, job.runtimes()
    asked = {"batch": tune.batch, "threads": tune.threads, "workers": tune.workers}
    found = [
        Decision(name, pinned if pinned is not None else "auto", _why(name, pinned))
        for name, pinned in asked.items()
    ]
    if tune.runtime != "auto":
        why = "the workload says so"
    elif len(ways) > 1:
        each = "each" if job.knows_packages else "each that workers have"
        why = f"{', '.join(ways)}: {each} is tried on the first inputs, and has to agree with the model as given"
    else:
        installed = (
            "that could run this model is installed" if job.knows_packages else "runs such a model there"
        )
        why = f"nothing else {installed}"
    why = "; ".join([why, *job.missing()])
    return [Decision("runtime", tune.runtime if len(ways) > 1 else ways[0], why), *found]


def _why(name: str, pinned: int | None) -> str:
    return (
        f"tune.{name} says so" if pinned is not None else "found out on the first inputs, while they are done"
    )


def _tuned(job: InferJob, nodes: Sequence[Node], learned: Learned) -> list[Decision]:
    tuning = recalled(job, nodes, learned)
    for node in nodes:
        tuning.active(node.host, machine_of(node, job.need).most_workers)
    return tuning.decisions()


def _why_errors(job: InferJob) -> str:
    if job.spec.limits.errors:
        return "so many inputs may be unreadable; above that the run counts as failed. They are in errors.parquet"
    return "an unreadable input makes the run count as failed; all others are done. limits.errors allows some"


def _foretold(found: Outlook) -> Decision:
    seconds = None if found.prediction is None else round(found.prediction.mid, 3)
    return Decision("prediction", seconds, "; ".join(filter(None, [found.why, found.advice])))
