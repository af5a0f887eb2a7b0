"""What a process run came to: rows, records, bad records and why, for its record and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal import words
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.spec.process import Process
from shoal.units import format_number, format_seconds, format_share, format_size
from shoal.work.job import Conclusion
from shoal.work.process.bad_records import BadRecords, gather
from shoal.work.process.brought_partials import merge
from shoal.work.process.item_params import FACTS, NUMBERS, Facts, is_map
from shoal.work.process.jobs import built_in
from shoal.work.process.jobs.base import numbers_of
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.source import ProcessSource

REASONS_KEPT = 10
NODES = "machine"
"""What was learned is of any node."""


def conclude(
    spec: Process,
    place: ResultPlace,
    source: ProcessSource,
    items: Iterator[tuple[Item, Mapping[str, Any]]],
    entries: BadRecords,
    seconds: float,
    turn: Turn,
    brought: str | None = None,
) -> Conclusion:
    """Sum the items up. Errors are gathered in one file beside the result; `entries` are those of indexes.

    `brought` is the folder that partials were brought to, where the driver is to merge them.
    """
    rows, numbers, has_result = 0, list[str](), False
    counted: list[tuple[Item, Facts]] = []
    left_out = source.superseded()
    for item, metrics in items:
        if not is_map(item.params):
            rows, has_result = rows + int(metrics["rows"]), True
            numbers = list(metrics[NUMBERS])
        elif item.seq not in left_out:
            counted.append((item, Facts.read(metrics[FACTS])))
    if brought is not None and source.is_complete:
        job = built_in(str(spec.job.name), spec.job.options)
        numbers = numbers_of(job)
        has_result = True
        ids = {item.seq: item.id for item, _ in counted}
        rows = merge(job, brought, [ids[seq] for seq, _ in source.partials()], place, turn)
    bad = [item for item, facts in counted if facts.errors]
    reasons = gather(place, bad, entries, turn, brought)
    facts = [*(each for _, each in counted), Facts(errors=entries.count)]
    records, errors = sum(each.records for each in facts), sum(each.errors for each in facts)
    share = errors / max(1, records + errors)
    document = {**summary(facts, rows, seconds, reasons), "numbers": numbers}
    document["result"] = place.mark() if has_result else ""
    document["errors_file"] = place.all_errors_key if errors else ""
    verdict = _verdict(spec, share)
    busy_s = sum(sum(each.seconds.values()) for each in facts)
    learned = (
        {NODES: {"bytes_per_second": document["bytes"] / busy_s}} if busy_s and document["bytes"] else {}
    )
    return Conclusion(bool(verdict), (*source.notes, *verdict), document, learned)


def summary(facts: Sequence[Facts], rows: int, seconds: float, reasons: Counter[str]) -> dict[str, Any]:
    """The document. Seconds by phase are summed over workers."""
    phases: Counter[str] = Counter()
    for each in facts:
        phases.update(each.seconds)
    size = sum(each.bytes for each in facts)
    records = sum(each.records for each in facts)
    return {
        "rows": rows,
        "records": records,
        "errors": sum(each.errors for each in facts),
        "bytes": size,
        "seconds": seconds,
        "bytes_per_second": size / seconds if seconds > 0 else 0.0,
        "records_per_second": records / seconds if seconds > 0 else 0.0,
        "phase_seconds": dict(phases),
        "reasons": dict(reasons.most_common(REASONS_KEPT)),
    }


def _verdict(spec: Process, share: float) -> list[str]:
    """Why the run counts as failed, if it does: above the limit, and in any case without a good record."""
    if share == 1:
        return ["it counts as failed: none of the records could be used."]
    if share <= spec.limits.errors:
        return []
    return [
        f"it counts as failed: {format_share(share)} of the records could not be used, and limits.errors allows"
        f" {format_share(spec.limits.errors)}. The result has all others."
    ]


def in_words(document: Mapping[str, Any]) -> list[str]:
    """The lines for a terminal, from the document as it was recorded."""
    rows, records = words.some(document["rows"], "row"), words.some(document["records"], "record")
    size, rate = format_size(document["bytes"]), format_size(int(document["bytes_per_second"]))
    speed = format_number(document["records_per_second"])
    lines = [f"{rows} from {records}, {size} read, {rate} a second ({speed} records)."]
    if phases := document["phase_seconds"]:
        told = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in phases.items() if spent > 0)
        lines.append(f"Time by phase, summed over workers: {told}.")
    if document["errors"]:
        lines += _about_errors(document)
    return lines


def _about_errors(document: Mapping[str, Any]) -> list[str]:
    errors, reasons = document["errors"], document["reasons"]
    file = document["errors_file"]
    lines = [f"{words.some(errors, 'record')} could not be used; {file} says which and why:"]
    return [*lines, *words.reasons(reasons, errors)]
