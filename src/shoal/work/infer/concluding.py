"""The end of a session: parts and errors put in order, what was tuned and how fast it was, and whether all went well."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.files import is_url
from shoal.spec import Infer
from shoal.units import format_share
from shoal.work.infer import outputs
from shoal.work.infer.inputs import Changes, Listing
from shoal.work.infer.outputs import Totals
from shoal.work.infer.summary import summary
from shoal.work.infer.tuning import Tuning
from shoal.work.job import Conclusion

REASONS_NAMED = 3


def conclude(
    spec: Infer,
    run: str,
    done: Iterable[tuple[int, Mapping[str, Any]]],
    listing: Listing,
    tuning: Tuning,
    seconds: float,
    notes: Sequence[str],
    resumed: bool,
) -> Conclusion:
    totals = outputs.finish(spec.output, spec.folder, run, done)
    share = totals.errors / max(1, totals.rows + totals.errors)
    too_many = share > spec.limits.errors
    document = summary(totals, listing_s=listing.seconds(), seconds=seconds)
    document["decisions"] = [decision._asdict() for decision in tuning.decisions()]
    return Conclusion(
        too_many or bool(totals.missing),
        (*notes, *_changes(listing.changes() if resumed else Changes()), *_errors(spec, totals, share)),
        spec.output.path if is_url(spec.output.path) else os.path.join(spec.folder, spec.output.path),
        document,
        tuning.learned(),
    )


def _changes(changes: Changes) -> list[str]:
    """What is no longer as it was when the run was stopped."""
    said = []
    if changes.new:
        said.append(f"{changes.new} inputs were not taken before, and were done now")
    if changes.changed:
        said.append(
            f"{changes.changed} inputs have changed since they were listed: those that were done before keep their rows"
        )
    if changes.gone:
        said.append(f"{changes.gone} inputs are gone: those that were done before keep their rows")
    return said


def _errors(spec: Infer, totals: Totals, share: float) -> list[str]:
    said = []
    if totals.missing:
        names = ", ".join(map(str, totals.missing[:5]))
        said.append(
            f"{len(totals.missing)} parts were written and are gone from {spec.output.path} (of items {names}): "
            "run the workload again to make them anew"
        )
    if totals.errors:
        frequent = sorted(totals.reasons.items(), key=lambda entry: -entry[1])[:REASONS_NAMED]
        why = "; ".join(f"{count} x {reason}" for reason, count in frequent)
        limit = spec.limits.errors
        verdict = f"more than limits.errors allows ({format_share(limit)})" if share > limit else "allowed"
        said.append(
            f"{totals.errors} inputs could not be used, {format_share(share)}, {verdict}: {why}. "
            "All of them are in errors.parquet"
        )
    return said
