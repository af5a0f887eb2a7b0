"""What a process run came to: rows, records, bad records and why, for its record and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal import words
from shoal.errors import NotFound
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.spec.process import Process
from shoal.units import format_number, format_seconds, format_share, format_size
from shoal.work.job import Conclusion
from shoal.work.process.item_params import FACTS, Facts, is_map
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.source import ProcessSource

REASONS_KEPT = 10
REASONS_SHOWN = 3
_LONGEST_REASON = 120
NODES = "machine"
"""What was learned is of any node."""


def conclude(
    spec: Process,
    place: ResultPlace,
    source: ProcessSource,
    items: Iterator[tuple[Item, Mapping[str, Any]]],
    seconds: float,
    turn: Turn,
) -> Conclusion:
    """Sum the items up. Errors are gathered in one file beside the result."""
    rows: list[int] = []
    counted: list[tuple[Item, Facts]] = []
    left_out = source.superseded()
    for item, metrics in items:
        if not is_map(item.params):
            rows.append(int(metrics["rows"]))
        elif item.seq not in left_out:
            counted.append((item, Facts.read(metrics[FACTS])))
    reasons = _gather_errors(
        place, [(item.seq, item.content) for item, facts in counted if facts.errors], turn
    )
    facts = [each for _, each in counted]
    records, errors = sum(each.records for each in facts), sum(each.errors for each in facts)
    share = errors / max(1, records + errors)
    document = summary(facts, sum(rows), seconds, reasons)
    document["result"] = place.mark() if rows else ""
    document["errors_file"] = place.all_errors_key if errors else ""
    notes = [*source.notes, *_verdict(spec, share, records)]
    busy_s = sum(sum(each.seconds.values()) for each in facts)
    learned = (
        {NODES: {"bytes_per_second": document["bytes"] / busy_s}} if busy_s and document["bytes"] else {}
    )
    return Conclusion(share > spec.limits.errors, tuple(notes), document, learned)


def _gather_errors(place: ResultPlace, parts: Sequence[tuple[int, str]], turn: Turn) -> Counter[str]:
    """One file with all bad records: how often each reason was found."""
    turn.ensure()
    if not parts:
        place.storage.delete(place.all_errors_key)
        return Counter()
    import pyarrow
    from pyarrow import parquet

    tables = []
    for seq, content in sorted(parts):
        try:
            data = place.storage.read(place.errors_key(seq, content))
        except NotFound:
            continue  # Gathered before, and tidied away.
        tables.append(parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False))
    if not tables:
        return Counter()
    table = pyarrow.concat_tables(tables)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    place.storage.write(place.all_errors_key, sink.getvalue().to_pybytes())
    return Counter(table.column("reason").to_pylist())


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


def _verdict(spec: Process, share: float, records: int) -> list[str]:
    if share <= spec.limits.errors:
        return []
    rest = " The result has all others." if records else ""
    return [
        f"it counts as failed: {format_share(share)} of the records could not be used, and limits.errors allows"
        f" {format_share(spec.limits.errors)}.{rest}"
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
    shown = sorted(reasons.items(), key=lambda each: -each[1])[:REASONS_SHOWN]
    lines += [
        f"  {count:,} x {words.shortened(words.printable(reason), _LONGEST_REASON)}"
        for reason, count in shown
    ]
    rest = errors - sum(count for _, count in shown)
    return [*lines, f"  and {rest:,} more"] if rest > 0 else lines
