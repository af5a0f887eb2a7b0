"""All that a report says of a run, as one value of bounded size. Reads through the run's own record; draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.api import inference
from shoal.api.display import words
from shoal.api.reading import open_run
from shoal.api.trials import Trials, trials
from shoal.cluster.here import Here
from shoal.model.record import RunEvent, WorkerUse
from shoal.plan.usl import Usl
from shoal.store import RunInfo, RunStore

MOST_REASONS = 1000
"""Different ones that are told apart; what comes later counts as others."""
REASONS_SHOWN = 10
MOST_EVENTS = 50


class Reason(NamedTuple):
    why: str
    items: int
    example: str
    """The first item that it is true of."""


class Reasons(NamedTuple):
    """Why items failed, the most frequent reasons first."""

    shown: list[Reason]
    others: int
    """Items that failed for other reasons."""


class Curve(NamedTuple):
    """What was measured on one kind of node. Documents are those of `infer.curves`."""

    kind: str
    chosen: Mapping[str, Any]
    """Empty where nothing was chosen."""
    points: list[Mapping[str, Any]]
    scaling: list[tuple[int, float]]
    """Inputs a second of a node, by workers."""
    law: list[tuple[int, float]]
    """The same by the law of scalability; empty where two numbers of workers were not measured."""
    contention: float
    coherence: float
    arrangements: list[Mapping[str, Any]]
    differences: Mapping[str, float]


class Inference(NamedTuple):
    document: Mapping[str, Any]
    """As `infer` of `run --json`."""
    is_final: bool
    """Whether a session has summed it up; otherwise it is what the items that are done say."""
    curves: list[Curve]


class Overview(NamedTuple):
    info: RunInfo
    at: float
    """When it was looked at."""
    results: str
    notes: list[str]
    decisions: list[Mapping[str, Any]]
    """Of the plan."""
    found_out: list[Mapping[str, Any]]
    """While it ran."""
    events: list[RunEvent]
    """What happened to it, with reasons: the latest."""
    workers: list[WorkerUse]
    """Of its last session; none before that has ended."""
    failures: Reasons
    trials: Trials | None
    inference: Inference | None

    @property
    def is_over(self) -> bool:
        return self.info.state.has_ended


def overview(run: str) -> Overview:
    """A run by id, unique prefix, name or `last`, as it is now, whatever its state. Takes no lock."""
    with open_run(run) as store:
        now = Here().now()
        info, kept = store.info(now), store.kept()
        is_inference = info.kind == "infer"
        return Overview(
            info,
            now,
            store.results_path(),
            list(kept.notes),
            list((store.plan() or {}).get("decisions") or []),
            list(inference.decisions(store)),
            store.events()[-MOST_EVENTS:],
            list(kept.workers),
            _reasons((row["item"], words.sentence(row["error"])) for row in store.rows(("failed",))),
            None if is_inference else trials(store, info.started or info.created),
            _inference(store, info) if is_inference else None,
        )


def _reasons(failed: Iterable[tuple[str, str]]) -> Reasons:
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    total = 0
    for item, why in failed:
        total += 1
        if why in counts or len(counts) < MOST_REASONS:
            counts[why] = counts.get(why, 0) + 1
            examples.setdefault(why, item)
    shown = sorted(counts.items(), key=lambda pair: -pair[1])[:REASONS_SHOWN]
    return Reasons(
        [Reason(why, count, examples[why]) for why, count in shown],
        total - sum(count for _, count in shown),
    )


def _inference(store: RunStore, info: RunInfo) -> Inference:
    recorded = store.kept().document
    is_final = recorded is not None and info.state.has_ended
    document = recorded if recorded is not None and is_final else inference.so_far(store, info.seconds)
    found: Mapping[str, Any] = (recorded or {}).get("curves") or {}
    return Inference(document, is_final, [_curve(kind, each) for kind, each in found.items()])


def _curve(kind: str, document: Mapping[str, Any]) -> Curve:
    chosen = document.get("chosen") or {}
    points = document.get("points") or []
    scaling = [(int(count), float(rate)) for count, rate in document.get("scaling") or []]
    law = Usl(**document["usl"]) if document.get("usl") and len(scaling) > 1 else None
    most = max([count for count, _ in scaling] or [1])
    return Curve(
        kind,
        chosen,
        points,
        scaling or _by_workers(chosen, points),
        [(count, law.throughput(count)) for count in _counts(most)] if law is not None else [],
        law.contention if law is not None else 0.0,
        law.coherence if law is not None else 0.0,
        document.get("arrangements") or [],
        document.get("differences") or {},
    )


def _counts(most: int) -> Sequence[int]:
    """Numbers of workers to draw the law at: a little beyond what was measured."""
    beyond = most + max(1, most // 4)
    return range(1, beyond + 1, max(1, beyond // 50))


def _by_workers(chosen: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """What earlier runs measured of the chosen setting, where this one measured nothing."""
    alike = [
        each
        for each in points
        if all(each[name] == chosen.get(name) for name in ("runtime", "batch", "threads"))
    ]
    return sorted((int(each["workers"]), float(each["node_rate"])) for each in alike)
