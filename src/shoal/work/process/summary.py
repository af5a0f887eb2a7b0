"""What a process run came to: rows, records, bad records and why, for its record and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal import words
from shoal.errors import NotFound
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.model.item import HIDDEN
from shoal.spec.process import Process
from shoal.units import format_number, format_seconds, format_share, format_size
from shoal.work.job import Conclusion
from shoal.work.process.item_params import FACTS, Facts, is_map
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.source import ProcessSource

WITH_ERRORS, NOTES = f"{HIDDEN}with_errors", f"{HIDDEN}notes"
"""Of a total, in the metrics of an item."""
REASONS_KEPT = 10
REASONS_SHOWN = 3
_LONGEST_REASON = 120
NODES = "machine"
"""What was learned is of any node."""


class Total(NamedTuple):
    """What the items of a run came to together."""

    rows: int = 0
    facts: Facts = Facts()
    """Those of the map items that count, summed, without extents."""
    with_errors: Sequence[tuple[int, str]] = ()
    """Map items with bad records, as sequence number and content."""
    notes: Sequence[str] = ()


def summed(items: Iterable[tuple[Item, Mapping[str, Any]]], source: ProcessSource) -> Total:
    """The total of items that are done, given with their metrics."""
    rows, total = 0, Facts()
    left_out = source.superseded()
    with_errors = []
    for item, metrics in items:
        if not is_map(item.params):
            rows += int(metrics["rows"])
        elif item.seq not in left_out:
            facts = Facts.read(metrics[FACTS])
            total = total.plus(facts)
            with_errors += [(item.seq, item.content)] if facts.errors else []
    return Total(rows, total, with_errors, source.notes)


def metrics_of(total: Total) -> dict[str, Any]:
    """A total as the metrics of one item, which is all of a run."""
    counts = {"rows": total.rows, "records": total.facts.records, "errors": total.facts.errors}
    rest = {WITH_ERRORS: list(map(list, total.with_errors)), NOTES: list(total.notes)}
    return {**counts, FACTS: total.facts.plain(), **rest}


def total_of(items: Iterable[tuple[Item, Mapping[str, Any]]]) -> Total:
    """What `metrics_of` wrote; nothing where that item is not done."""
    for _, metrics in items:
        with_errors = [(seq, content) for seq, content in metrics[WITH_ERRORS]]
        return Total(metrics["rows"], Facts.read(metrics[FACTS]), with_errors, metrics[NOTES])
    return Total()


def conclude(spec: Process, place: ResultPlace, total: Total, seconds: float, turn: Turn) -> Conclusion:
    """Sum the run up. Errors are gathered in one file beside the result."""
    reasons = _gather_errors(place, total.with_errors, turn)
    facts = total.facts
    share = facts.errors / max(1, facts.records + facts.errors)
    document = summary(facts, total.rows, seconds, reasons)
    notes = [*total.notes, *_verdict(spec, share, facts.records)]
    busy_s = sum(facts.seconds.values())
    learned = {NODES: {"bytes_per_second": facts.bytes / busy_s}} if busy_s and facts.bytes else {}
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


def summary(facts: Facts, rows: int, seconds: float, reasons: Counter[str]) -> dict[str, Any]:
    """The document. Seconds by phase are summed over workers."""
    return {
        "rows": rows,
        "records": facts.records,
        "errors": facts.errors,
        "bytes": facts.bytes,
        "seconds": seconds,
        "bytes_per_second": facts.bytes / seconds if seconds > 0 else 0.0,
        "records_per_second": facts.records / seconds if seconds > 0 else 0.0,
        "phase_seconds": dict(facts.seconds),
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
        lines += _about_errors(document["errors"], document["reasons"])
    return lines


def _about_errors(errors: int, reasons: Mapping[str, int]) -> list[str]:
    lines = [
        f"{words.some(errors, 'record')} could not be used; the file of errors beside the result says which:"
    ]
    shown = sorted(reasons.items(), key=lambda each: -each[1])[:REASONS_SHOWN]
    lines += [
        f"  {count:,} x {words.shortened(words.printable(reason), _LONGEST_REASON)}"
        for reason, count in shown
    ]
    rest = errors - sum(count for _, count in shown)
    return [*lines, f"  and {rest:,} more"] if rest > 0 else lines
