"""What a page shows of an inference: throughput, what was measured, the chosen point, phases, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal import words
from shoal.planner.scalability import Usl
from shoal.units import format_number, format_seconds, format_size
from shoal.work.pages import (
    Bars,
    Block,
    Chart,
    Details,
    Heading,
    Page,
    Paragraph,
    Ring,
    Scale,
    Section,
    Series,
    Table,
    Tile,
)

if TYPE_CHECKING:
    from shoal.store import RunInfo

REASONS_SHOWN = 10
POINTS_SHOWN = 100
LONGEST_REASON = 300


class Curve(NamedTuple):
    """What was measured on one kind of node. Documents are those of `infer.curves`."""

    kind: str
    chosen: Mapping[str, Any]
    """Empty where nothing was chosen."""
    points: list[Mapping[str, Any]]
    scaling: list[tuple[int, float]]
    """Inputs a second of a node, by workers."""
    law: Usl | None
    """Of scalability; None where two numbers of workers were not measured."""
    arrangements: list[Mapping[str, Any]]
    differences: Mapping[str, float]


def page(info: RunInfo, document: Mapping[str, Any], curves: Mapping[str, Any], *, is_final: bool) -> Page:
    """`document` is what the run came to, so far unless `is_final`; `curves` what its tuners measured."""
    found = [_curve_of(kind, each) for kind, each in curves.items()]
    sections = [*_curves(found), *_phases(document), *_errors(document)]
    return Page(_tiles(info, document, is_final=is_final), sections)


def _tiles(info: RunInfo, document: Mapping[str, Any], *, is_final: bool) -> list[Tile]:
    tiles = [
        Tile("rows", f"{document.get('rows') or 0:,}"),
        Tile("errors", f"{document.get('errors') or 0:,}"),
        Tile("inputs a second", format_number(document.get("rows_per_second") or 0.0)),
    ]
    if is_final:  # How much of the time was listing is known in the end.
        without = format_number(document.get("rows_per_second_without_listing") or 0.0)
        tiles.append(Tile("without listing", without))
    if info.items.get("failed"):
        tiles.append(Tile("items failed", f"{info.items['failed']:,}"))
    if document.get("bytes"):
        tiles.append(Tile("read", format_size(int(document["bytes"]))))
    return tiles


def _curves(curves: Sequence[Curve]) -> list[Section]:
    """What was measured, for each kind of node."""
    several = len(curves) > 1
    return [
        Section(
            f"What was measured on {curve.kind}" if several else "What was measured",
            [*_by_batch(curve), *_by_workers(curve), *_differences(curve.differences), _points(curve)],
        )
        for curve in curves
        if curve.points
    ]


# By batch.


def _by_batch(curve: Curve) -> list[Block]:
    runtimes = list(dict.fromkeys(str(point["runtime"]) for point in curve.points))
    picked = {name: _comparable(curve, name) for name in runtimes}
    series = [
        Series(
            name,
            [(point["batch"], point["rate"]) for point in picked[name]],
            "joined",
            number,
            [_of_point(point) for point in picked[name]],
        )
        for number, name in enumerate(runtimes)
    ]
    every = [point for points in picked.values() for point in points]
    chosen = [point for point in every if _is_chosen(point, curve.chosen)]
    rings = [Ring(point["batch"], point["rate"], "chosen") for point in chosen]
    return [
        Heading("Inputs a second of a worker, by batch"),
        Chart(
            Scale("batch", "doubling"), Scale("inputs a second of a worker", from_zero=True), series, rings
        ),
        *_in_words(curve.chosen),
    ]


def _comparable(curve: Curve, runtime: str) -> list[Mapping[str, Any]]:
    """One point for each batch, all with the threads that were chosen, or else those of most inputs."""
    points = [point for point in curve.points if point["runtime"] == runtime]
    rows: dict[int, int] = {}
    for point in points:
        rows[point["threads"]] = rows.get(point["threads"], 0) + point["rows"]
    wanted = curve.chosen.get("threads")
    threads = wanted if wanted in rows else max(rows, key=lambda each: rows[each])
    workers = curve.chosen.get("at_work") or 1
    by_batch: dict[int, Mapping[str, Any]] = {}
    for point in points:
        if point["threads"] == threads:
            known = by_batch.get(point["batch"])
            if known is None or abs(point["workers"] - workers) < abs(known["workers"] - workers):
                by_batch[point["batch"]] = point
    return [by_batch[batch] for batch in sorted(by_batch)]


def _is_chosen(point: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    return all(point[name] == chosen.get(name) for name in ("runtime", "batch", "threads"))


def _of_point(point: Mapping[str, Any]) -> str:
    return (
        f"{point['runtime']}, batch {point['batch']}, {_arranged(point)}: {format_number(point['rate'])} a second,"
        f" over {point['rows']:,} inputs"
    )


def _arranged(entry: Mapping[str, Any]) -> str:
    return f"{words.some(entry['workers'], 'worker')} with {words.some(entry['threads'], 'thread')}"


def _in_words(chosen: Mapping[str, Any]) -> list[Block]:
    if not chosen:
        return []
    arranged = _arranged({"workers": chosen.get("at_work", chosen["workers"]), "threads": chosen["threads"]})
    rate = chosen.get("rate")
    does = f": {format_number(rate)} inputs a second of a node" if rate else ""
    return [Paragraph(f"Chosen: {chosen['runtime']}, batch {chosen['batch']}, {arranged}{does}.")]


# By workers.


def _by_workers(curve: Curve) -> list[Block]:
    """What a node does with so many workers, and the law that was fitted to it."""
    tried = [entry for entry in curve.arrangements if entry.get("node_rate")]
    if len(curve.scaling) + len(tried) < 2:
        return []
    measured = Series(
        "measured",
        curve.scaling,
        colour=0,
        titles=[
            f"{words.some(count, 'worker')}: {format_number(rate)} a second" for count, rate in curve.scaling
        ],
    )
    law = Series("the law of scalability", _by_law(curve), "line", 1)
    others = Series(
        "other arrangements that were tried",
        [(entry["workers"], entry["node_rate"]) for entry in tried],
        colour=2,
        titles=[f"{_arranged(entry)}: {format_number(entry['node_rate'])} a second" for entry in tried],
    )
    series = [each for each in (law, measured, others) if each.points]
    at_work = curve.chosen.get("at_work")
    rings = [Ring(count, rate, "chosen") for count, rate in curve.scaling if count == at_work]
    x, y = Scale("workers", from_zero=True, least=1.0), Scale("inputs a second of a node", from_zero=True)
    return [Heading("Inputs a second of a node, by workers"), Chart(x, y, series, rings), *_of_law(curve.law)]


def _by_law(curve: Curve) -> list[tuple[int, float]]:
    """A little beyond what was measured."""
    beyond = max([count * 5 // 4 for count, _ in curve.scaling], default=1) + 1
    every = max(1, beyond // 50)
    return (
        [(count, curve.law.throughput(count)) for count in range(1, beyond + 1, every)] if curve.law else []
    )


def _of_law(law: Usl | None) -> list[Block]:
    if law is None:
        return []
    text = (
        f"The law that fits best has contention {law.contention:.2g} (what workers do one after the other) and"
        f" coherence {law.coherence:.2g} (what each pair of them costs)."
    )
    return [Paragraph(text, is_note=True)]


# In figures.


def _differences(differences: Mapping[str, float]) -> list[Block]:
    if not differences:
        return []
    told = ", ".join(f"{name} {value:.2g}" for name, value in differences.items())
    return [Paragraph(f"The largest difference of any output from the model as given: {told}.")]


def _points(curve: Curve) -> Details:
    columns = ("runtime", "batch", "threads", "workers", "a worker", "a node", "inputs", "memory")
    shown = curve.points[:POINTS_SHOWN]
    rows = [
        (
            point["runtime"],
            point["batch"],
            point["threads"],
            point["workers"],
            format_number(point["rate"]),
            format_number(point["node_rate"]),
            f"{point['rows']:,}",
            format_size(point["memory_bytes"]) if point["memory_bytes"] else "",
        )
        for point in shown
    ]
    more = len(curve.points) - len(shown)
    rest = [Paragraph(f"And {more} more, which shoal show --json has.")] if more else []
    title = f"All {len(curve.points)} points in figures, those of earlier runs among them"
    return Details(title, [Table(columns, rows, columns[1:]), *rest])


def _phases(document: Mapping[str, Any]) -> list[Section]:
    spent: Mapping[str, float] = document.get("phase_seconds") or {}
    rows = [(name, seconds, format_seconds(seconds)) for name, seconds in spent.items() if seconds > 0]
    if not rows:
        return []
    note = "Summed over threads and workers, except listing: together it may be more than the run took."
    return [Section("Seconds by phase", [Bars(rows, "seconds by phase"), Paragraph(note, is_note=True)])]


def _errors(document: Mapping[str, Any]) -> list[Section]:
    errors, reasons = document.get("errors") or 0, document.get("reasons") or {}
    if not errors:
        return []
    shown = sorted(reasons.items(), key=lambda pair: -pair[1])[:REASONS_SHOWN]
    rows = [(words.shortened(words.printable(why), LONGEST_REASON), f"{count:,}") for why, count in shown]
    rest = errors - sum(count for _, count in shown)
    blocks: list[Block] = [Table(("reason", "inputs"), rows, ("inputs",))] if rows else []
    if rest > 0:
        blocks.append(Paragraph(f"{'And ' if rows else ''}{rest:,} {'more' if rows else 'so far'}."))
    blocks.append(Paragraph("errors.parquet in the output says which.", is_note=True))
    return [Section("Inputs that could not be used", blocks)]


def _curve_of(kind: str, document: Mapping[str, Any]) -> Curve:
    """From what a run keeps. Where this one measured nothing, what earlier ones did with the chosen setting."""
    chosen, points = document.get("chosen") or {}, document.get("points") or []
    scaling = [(int(count), float(rate)) for count, rate in document.get("scaling") or []]
    alike = [point for point in points if _is_chosen(point, chosen)]
    return Curve(
        kind,
        chosen,
        points,
        scaling or sorted((int(each["workers"]), float(each["node_rate"])) for each in alike),
        Usl(**document["usl"]) if document.get("usl") and len(scaling) > 1 else None,
        document.get("arrangements") or [],
        document.get("differences") or {},
    )
