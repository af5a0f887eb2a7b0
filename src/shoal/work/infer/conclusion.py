"""The end of a session: parts and errors put in order, what the run came to, and whether it counts as failed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from shoal import words
from shoal.files.turns import Turn
from shoal.spec import Infer
from shoal.units import format_number, format_seconds, format_share, format_size
from shoal.work import outputs
from shoal.work.infer.infer_run import InferSource
from shoal.work.infer.tuners import Tuning
from shoal.work.inputs import Changes, Listing
from shoal.work.job import Conclusion
from shoal.work.outputs import Totals

PHASES = ("listing", "reading", "decoding", "preprocessing", "predicting", "writing")
REASONS_SHOWN = 3
MISSING_SHOWN = 5
_LONGEST_REASON = 120


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


def summary(
    totals: Totals,
    *,
    listing_s: float,
    seconds: float,
    runtime: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The document. `seconds` is the wall time of the whole run, over all its sessions; `listing_s` how much of it
    went by with listing alone, before there was anything to do. `more` are JSON values to keep beside.

    Seconds by phase are summed over threads and workers, except listing, so that they may be more than `seconds`.
    """
    phases = {"listing": listing_s, **totals.seconds}
    return {
        "rows": totals.rows,
        "errors": totals.errors,
        "parts": totals.parts,
        "bytes": totals.bytes,
        "seconds": seconds,
        "rows_per_second": _rate(totals.rows, seconds),
        "rows_per_second_without_listing": _rate(totals.rows, seconds - listing_s),
        "phase_seconds": {name: phases[name] for name in sorted(phases, key=_order)},
        "reasons": dict(totals.reasons),
        "missing": list(totals.missing),
        "runtime": runtime,
        **more,
    }


def in_words(document: Mapping[str, Any]) -> list[str]:
    """The lines for a terminal, from the document as it was recorded."""
    lines = []
    if document["parts"]:
        rows, parts = words.some(document["rows"], "row"), words.some(document["parts"], "part")
        lines.append(f"{rows} in {parts}{_speed(document)}{_read(document)}.")
        phases = {name: spent for name, spent in document["phase_seconds"].items() if spent > 0}
        told = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in phases.items())
        if told:
            lines.append(f"Time by phase, summed over threads: {told}.")
    if document["errors"]:
        lines += _about_errors(document["errors"], document["reasons"])
    if document["missing"]:
        lines.append(_about_missing(document["missing"]))
    return lines


def _speed(document: Mapping[str, Any]) -> str:
    whole, rest = document["rows_per_second"], document["rows_per_second_without_listing"]
    if not whole:
        return ""
    said = f", {format_number(whole)} a second"
    return (
        f"{said} ({format_number(rest)} without listing)"
        if format_number(rest) != format_number(whole)
        else said
    )


def _read(document: Mapping[str, Any]) -> str:
    return f", from {format_size(document['bytes'])}" if document["bytes"] else ""


def _about_errors(errors: int, reasons: Mapping[str, int]) -> list[str]:
    lines = [f"{words.some(errors, 'input')} could not be used; errors.parquet says which and why:"]
    shown = sorted(reasons.items(), key=lambda each: -each[1])[:REASONS_SHOWN]
    lines += [
        f"  {count:,} x {words.shortened(words.printable(reason), _LONGEST_REASON)}"
        for reason, count in shown
    ]
    rest = errors - sum(count for _, count in shown)
    return [*lines, f"  and {rest:,} more"] if rest > 0 else lines


def _about_missing(missing: Sequence[int]) -> str:
    some = ", ".join(map(str, missing[:MISSING_SHOWN])) + (", ..." if len(missing) > MISSING_SHOWN else "")
    are = "is" if len(missing) == 1 else "are"
    return f"{words.some(len(missing), 'part')} of items that were done {are} gone (items {some})."


def _rate(rows: int, seconds: float) -> float:
    return rows / seconds if seconds > 0 else 0.0


def _order(phase: str) -> tuple[int, str]:
    return (PHASES.index(phase) if phase in PHASES else len(PHASES), phase)
