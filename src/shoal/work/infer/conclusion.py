"""The end of a session: parts and errors put in order, what was found out, and whether all went well."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from shoal.files.turns import Turn
from shoal.spec import Infer
from shoal.units import format_share
from shoal.work import outputs
from shoal.work.infer.source import InferSource
from shoal.work.infer.summary import summary
from shoal.work.infer.tuners import Tuning
from shoal.work.inputs import Changes, Listing
from shoal.work.job import Conclusion
from shoal.work.outputs import Totals


def conclude(
    spec: Infer,
    run: str,
    done: Iterable[tuple[int, Mapping[str, Any]]],
    listing: Listing,
    source: InferSource,
    tuning: Tuning,
    seconds: float,
    notes: Sequence[str],
    resumed: bool,
    has_begun: bool,
    turn: Turn,
    strangers: Container[int] | None,
) -> Conclusion:
    """A session that was stopped before it found an input has not begun, and leaves the output as it was.

    `strangers` is None where the run is over.
    """
    totals = Totals(0, 0, 0, 0, {})
    if has_begun:
        totals = outputs.finish(spec.output, spec.folder, run, done, turn, strangers=strangers)
    share = totals.errors / max(1, totals.rows + totals.errors)
    too_many = share > spec.limits.errors
    document = summary(
        totals,
        listing_s=min(listing.seconds(), source.idle_s),
        seconds=seconds,
        runtime=tuning.runtime(),
        decisions=[decision._asdict() for decision in tuning.decisions()],
        curves=tuning.curves(),
    )
    document["phase_seconds"]["listing"] = listing.seconds()
    return Conclusion(
        too_many or bool(totals.missing),
        (*notes, *_changes(listing.changes() if resumed else Changes()), *_verdict(spec, totals, share)),
        document,
        tuning.learned(),
    )


def _changes(changes: Changes) -> list[str]:
    """What is no longer as it was when the run was stopped."""
    said = []
    if changes.new:
        said.append(f"{_inputs(changes.new)} had not been taken by earlier sessions, or came since.")
    if changes.changed:
        said.append(
            f"{_inputs(changes.changed)} changed since the listing; what was done before keeps its rows."
        )
    if changes.gone:
        said.append(
            f"{_inputs(changes.gone)} vanished since the listing; what was done before keeps its rows."
        )
    return said


def _inputs(number: int) -> str:
    return f"{number:,} input{'' if number == 1 else 's'}"


def _verdict(spec: Infer, totals: Totals, share: float) -> list[str]:
    """Why the run counts as failed, if it does."""
    said = []
    if totals.missing:
        said.append(f"parts are gone from {spec.output.path}: run the workload again to make them anew.")
    if share > spec.limits.errors:
        said.append(
            f"it counts as failed: {format_share(share)} of the inputs could not be used, and limits.errors allows"
            f" {format_share(spec.limits.errors)}.{' All other rows are there.' if totals.rows else ''}"
        )
    return said
