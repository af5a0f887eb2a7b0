"""What a page shows of a process run: how much was read how fast, the top of the result, phases, bad records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.errors import ShoalError
from shoal.units import format_number, format_seconds, format_size
from shoal.work.pages import Bars, Page, Paragraph, Section, Table, Tile, counted

if TYPE_CHECKING:
    from shoal.store import RunInfo, RunStore
    from shoal.work.process.kind import ProcessKind

LONGEST_KEY = 60
LONGEST_REASON = 300
BARS = 20


def page(kind: ProcessKind, store: RunStore, info: RunInfo, document: Mapping[str, Any] | None) -> Page:
    if document is None:
        return Page(counted(info, kind.item))
    return Page(_tiles(info, document), [*_top(kind, store), *_phases(document), *_errors(document)])


def _tiles(info: RunInfo, document: Mapping[str, Any]) -> list[Tile]:
    tiles = [
        Tile("rows", f"{document['rows']:,}"),
        Tile("records", f"{document['records']:,}"),
        Tile("bad records", f"{document['errors']:,}"),
        Tile("read", format_size(int(document["bytes"]))),
        Tile("read a second", format_size(int(document["bytes_per_second"]))),
        Tile("records a second", format_number(document["records_per_second"])),
    ]
    failed = info.items.get("failed")
    return [*tiles, Tile("items failed", f"{failed:,}")] if failed else tiles


def _top(kind: ProcessKind, store: RunStore) -> list[Section]:
    try:
        rows = list(kind.rows(store, BARS))
    except ShoalError as error:
        return [Section("Result", [Paragraph(str(error), is_note=True)])]
    if not rows or "count" not in rows[0]:
        return []
    names = [name for name in rows[0] if name != "count" and isinstance(rows[0][name], str)]
    bars = [
        (
            words.shortened(words.printable(" to ".join(str(row[name]) for name in names)), LONGEST_KEY),
            float(row["count"]),
            f"{row['count']:,}",
        )
        for row in rows
    ]
    return [Section(f"The {len(bars)} most frequent", [Bars(bars, "count")])]


def _phases(document: Mapping[str, Any]) -> list[Section]:
    spent = {name: seconds for name, seconds in document["phase_seconds"].items() if seconds > 0}
    if not spent:
        return []
    bars = [(name, seconds, format_seconds(seconds)) for name, seconds in spent.items()]
    return [Section("Where the time went", [Bars(bars, "seconds, summed over workers")])]


def _errors(document: Mapping[str, Any]) -> list[Section]:
    if not document["errors"]:
        return []
    reasons = sorted(document["reasons"].items(), key=lambda each: -each[1])
    rows = [
        (f"{count:,}", words.shortened(words.printable(reason), LONGEST_REASON)) for reason, count in reasons
    ]
    return [Section("Bad records", [Table(("records", "reason"), rows, right=("records",))])]
