"""What a run of inference came to, as a document, and that in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal import words
from shoal.units import format_number, format_seconds, format_size
from shoal.work.outputs import Totals

PHASES = ("listing", "reading", "decoding", "preprocessing", "predicting", "writing")
MISSING_SHOWN = 5


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
    return [*lines, *words.reasons(reasons, errors)]


def _about_missing(missing: Sequence[int]) -> str:
    some = ", ".join(map(str, missing[:MISSING_SHOWN])) + (", ..." if len(missing) > MISSING_SHOWN else "")
    are = "is" if len(missing) == 1 else "are"
    return f"{words.some(len(missing), 'part')} of items that were done {are} gone (items {some})."


def _rate(rows: int, seconds: float) -> float:
    return rows / seconds if seconds > 0 else 0.0


def _order(phase: str) -> tuple[int, str]:
    return (PHASES.index(phase) if phase in PHASES else len(PHASES), phase)
