"""All that a report says of a run, as one value of bounded size. Reads through the run's own record; draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shoal import words
from shoal.api.views.lookup import open_run
from shoal.cluster.this_machine import Here
from shoal.model.record import RunEvent, WorkerUse
from shoal.store import RunInfo
from shoal.work.kind import kind_of
from shoal.work.pages import Page

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
    item: str
    """What an item of this kind is called."""
    page: Page
    """What is shown of this kind."""

    @property
    def is_over(self) -> bool:
        return self.info.state.has_ended


def overview(run: str) -> Overview:
    """A run by id, unique prefix, name or `last`, as it is now, whatever its state. Takes no lock."""
    with open_run(run) as store:
        now = Here().now()
        info, kept = store.info(now), store.kept()
        kind = kind_of(info.kind)
        return Overview(
            info,
            now,
            store.results_path(),
            list(kept.notes),
            list((store.plan() or {}).get("decisions") or []),
            kind.decisions(store),
            store.events()[-MOST_EVENTS:],
            list(kept.workers),
            _reasons((row["item"], words.sentence(row["error"])) for row in store.rows(("failed",))),
            kind.item,
            kind.page(store, info),
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
