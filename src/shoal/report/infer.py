"""What a report says of an inference: throughput, what was measured, the chosen point, phases, errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.api.overview import Curve, Inference, Overview
from shoal.report import scales
from shoal.report.charts import Ring, Series, bars, chart
from shoal.report.markup import Content, Markup, join, table, tag, text
from shoal.report.sections import section
from shoal.units import format_number, format_seconds, format_size

REASONS_SHOWN = 10
POINTS_SHOWN = 100
LONGEST_REASON = 300


def tiles(found: Overview) -> list[tuple[str, Content]]:
    """The figures at the top."""
    document, items = _inference(found).document, found.info.items
    entries: list[tuple[str, Content]] = [
        ("rows", f"{document.get('rows') or 0:,}"),
        ("errors", f"{document.get('errors') or 0:,}"),
        ("inputs a second", format_number(document.get("rows_per_second") or 0.0)),
        ("without listing", format_number(document.get("rows_per_second_without_listing") or 0.0)),
    ]
    if not _inference(found).is_final:
        del entries[-1]  # How much of the time was listing is known in the end.
    if items.get("failed"):
        entries.append(("items failed", f"{items['failed']:,}"))
    if document.get("bytes"):
        entries.append(("read", format_size(int(document["bytes"]))))
    return entries


def sections(found: Overview) -> list[Markup]:
    inference = _inference(found)
    return [
        *_curves(inference.curves),
        _phases(inference.document),
        _errors(inference.document),
    ]


def _inference(found: Overview) -> Inference:
    assert found.inference is not None
    return found.inference


def _curves(curves: list[Curve]) -> list[Markup]:
    """What was measured, for each kind of node."""
    several = len(curves) > 1
    return [
        section(
            f"What was measured on {curve.kind}" if several else "What was measured",
            _by_batch(curve),
            _by_workers(curve),
            _differences(curve.differences),
            _points(curve),
        )
        for curve in curves
        if curve.points
    ]


# By batch.


def _by_batch(curve: Curve) -> Markup:
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
    x = scales.doubling("batch", [point["batch"] for point in every])
    y = scales.linear("inputs a second of a worker", [point["rate"] for point in every], from_zero=True)
    return join(
        tag("h3", "Inputs a second of a worker, by batch"),
        chart(x, y, series, rings=rings),
        _in_words(curve.chosen),
    )


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
    return f"{_some(entry['workers'], 'worker')} with {_some(entry['threads'], 'thread')}"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _in_words(chosen: Mapping[str, Any]) -> Markup | None:
    if not chosen:
        return None
    arranged = _arranged({"workers": chosen.get("at_work", chosen["workers"]), "threads": chosen["threads"]})
    rate = chosen.get("rate")
    does = f": {format_number(rate)} inputs a second of a node" if rate else ""
    return tag("p", f"Chosen: {chosen['runtime']}, batch {chosen['batch']}, {arranged}{does}.")


# By workers.


def _by_workers(curve: Curve) -> Markup | None:
    """What a node does with so many workers, and the law that was fitted to it."""
    tried = [entry for entry in curve.arrangements if entry.get("node_rate")]
    if len(curve.scaling) + len(tried) < 2:
        return None
    of_node = "inputs a second of a node"
    measured = Series(
        "measured",
        curve.scaling,
        colour=0,
        titles=[f"{_some(count, 'worker')}: {format_number(rate)} a second" for count, rate in curve.scaling],
    )
    law = Series("the law of scalability", curve.law, "line", 1)
    others = Series(
        "other arrangements that were tried",
        [(entry["workers"], entry["node_rate"]) for entry in tried],
        colour=2,
        titles=[f"{_arranged(entry)}: {format_number(entry['node_rate'])} a second" for entry in tried],
    )
    series = [each for each in (law, measured, others) if each.points]
    points = [point for each in series for point in each.points]
    x = scales.linear("workers", [count for count, _ in points], from_zero=True, least=1.0)
    y = scales.linear(of_node, [rate for _, rate in points], from_zero=True)
    at_work = curve.chosen.get("at_work")
    rings = [Ring(count, rate, "chosen") for count, rate in curve.scaling if count == at_work]
    return join(
        tag("h3", "Inputs a second of a node, by workers"),
        chart(x, y, series, rings=rings),
        _of_law(curve),
    )


def _of_law(curve: Curve) -> Markup | None:
    if not curve.law:
        return None
    return tag(
        "p",
        f"The law that fits best has contention {curve.contention:.2g} (what workers do one after the other) and"
        f" coherence {curve.coherence:.2g} (what each pair of them costs).",
        class_="note",
    )


# In figures.


def _differences(differences: Mapping[str, float]) -> Markup | None:
    if not differences:
        return None
    told = ", ".join(f"{name} {value:.2g}" for name, value in differences.items())
    return tag("p", f"The largest difference of any output from the model as given: {told}.")


def _points(curve: Curve) -> Markup:
    columns = ("runtime", "batch", "threads", "workers", "a worker", "a node", "inputs", "memory")
    shown = curve.points[:POINTS_SHOWN]
    rows: list[tuple[Content, ...]] = [
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
    return tag(
        "details",
        tag("summary", f"All {len(curve.points)} points in figures, those of earlier runs among them"),
        table(columns, rows, right=columns[1:]),
        tag("p", f"And {more} more, which shoal show --json has.") if more else None,
    )


def _phases(document: Mapping[str, Any]) -> Markup:
    spent: Mapping[str, float] = document.get("phase_seconds") or {}
    rows = [(name, seconds, format_seconds(seconds)) for name, seconds in spent.items() if seconds > 0]
    if not rows:
        return Markup()
    note = "Summed over threads and workers, except listing: together it may be more than the run took."
    return section("Seconds by phase", bars(rows, "seconds by phase"), tag("p", note, class_="note"))


def _errors(document: Mapping[str, Any]) -> Markup:
    errors, reasons = document.get("errors") or 0, document.get("reasons") or {}
    if not errors:
        return Markup()
    shown = _most_frequent(reasons.items())
    rows: list[tuple[Content, ...]] = [(text(why, LONGEST_REASON), f"{count:,}") for why, count in shown]
    rest = errors - sum(count for _, count in shown)
    return section(
        "Inputs that could not be used",
        table(("reason", "inputs"), rows, right=("inputs",)) if rows else None,
        tag("p", f"{'And ' if rows else ''}{rest:,} {'more' if rows else 'so far'}.") if rest > 0 else None,
        tag("p", "errors.parquet in the output says which.", class_="note"),
    )


def _most_frequent(reasons: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(reasons, key=lambda pair: -pair[1])[:REASONS_SHOWN]
