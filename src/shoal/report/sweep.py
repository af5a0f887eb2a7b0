"""What a report says of a sweep: its best trials, the objective over time and over each parameter, durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.api.display import words
from shoal.api.overview import Overview
from shoal.api.trials import NodeUse, Parameter, Trial, Trials, number, word
from shoal.report import scales
from shoal.report.charts import BOTTOM, ROW, TOP, Box, Ring, Series, boxes, chart
from shoal.report.markup import Content, Markup, table, tag
from shoal.report.scales import Axis
from shoal.report.sections import cell, section, unit_of
from shoal.units import format_number, format_seconds

MOST_PARAMETERS = 6
MOST_COLUMNS = 12
GOLDEN = 0.618
"""Dots of one word are spread by multiples of it: next to each other, and never in a pattern."""


def tiles(found: Overview) -> list[tuple[str, Content]]:
    """The figures at the top."""
    info, trials = found.info, _trials(found)
    done = info.items.get("done", 0) + info.items.get("cached", 0)
    of = "" if info.total is None else f" of {info.total:,}"
    entries: list[tuple[str, Content]] = [("trials done", f"{done:,}{of}")]
    for state in ("failed", "pruned", "stopped", "running", "waiting"):
        if info.items.get(state):
            entries.append((state, f"{info.items[state]:,}"))
    best = _best_value(trials)
    if best is not None:
        entries.append((f"best {words.shortened(words.printable(trials.metric or ''), 40)}", f"{best:.6g}"))
    return entries


def sections(found: Overview) -> list[Markup]:
    trials = _trials(found)
    return [_table(found, trials), _over_time(trials), _over_parameters(trials), _nodes(trials)]


def _trials(found: Overview) -> Trials:
    assert found.trials is not None
    return found.trials


def _best_value(trials: Trials) -> float | None:
    """What the best trial gave, where something says what is best."""
    return number(trials.rows[0].get(trials.metric)) if trials.is_ranked and trials.metric else None


def _table(found: Overview, trials: Trials) -> Markup:
    title = "The best trials" if trials.is_ranked else "The first trials"
    if not trials.rows:
        return section(title, tag("p", "There are none yet."))
    columns = tuple(trials.columns[:MOST_COLUMNS])
    right = tuple(name for name in columns if _is_numeric(trials.rows, name))
    rows: list[tuple[Content, ...]] = [
        tuple(_seconds(row.get(name)) if name == "seconds" else cell(row.get(name)) for name in columns)
        for row in trials.rows
    ]
    hidden = len(trials.columns) - len(columns)
    more = f" There are {hidden} more columns." if hidden else ""
    all_rows = tag("p", f"All of them:{more} ", tag("code", f"shoal results {found.info.run}"), class_="note")
    return section(title, table(columns, rows, right=right), all_rows)


def _is_numeric(rows: Sequence[dict[str, Any]], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(number(value) is not None for value in values)


def _seconds(value: Any) -> str:
    return "" if value is None else f"{value:.3f}"


def _over_time(trials: Trials) -> Markup:
    if trials.metric is None or not trials.points:
        return Markup()
    length, unit = unit_of(max(trial.ended_s for trial in trials.points))
    values = [trial.value for trial in trials.points] + [value for _, value in trials.leading]
    times = [trial.ended_s / length for trial in trials.points]
    series = [
        Series(
            "trials",
            [(trial.ended_s / length, trial.value) for trial in trials.points],
            titles=[_title(trial, trials.metric) for trial in trials.points],
        )
    ]
    if trials.leading:
        leading = [(at / length, value) for at, value in trials.leading]
        series.append(Series("the best so far", leading, "steps", 1))
    x = scales.linear(f"{unit} since it began", times, from_zero=True)
    return section(
        f"{words.shortened(trials.metric, 60)} over time",
        chart(x, _axis(trials, values), series),
        _thinned(trials),
    )


def _thinned(trials: Trials) -> Markup | None:
    if trials.measured <= len(trials.points):
        return None
    shown, all_of_them = f"{len(trials.points):,}", f"{trials.measured:,}"
    return tag("p", f"Drawn are {shown} of the {all_of_them} trials, picked at random.", class_="note")


def _title(trial: Trial, metric: str) -> str:
    return f"{trial.item}: {metric} {trial.value:.6g} ({words.parameters(trial.params, 120)})"


def _axis(trials: Trials, values: Sequence[float]) -> Axis:
    """Of the objective: what is to be small, such as a loss, may differ by powers of ten."""
    label = trials.metric or ""
    return scales.of_numbers(label, values) if trials.goal == "min" else scales.linear(label, values)


def _over_parameters(trials: Trials) -> Markup:
    if trials.metric is None or not trials.points:
        return Markup()
    drawn = [_over(trials, each) for each in trials.parameters[:MOST_PARAMETERS]]
    names = [*(each.name for each in trials.parameters[MOST_PARAMETERS:]), *trials.left_out]
    left_out = words.shortened(", ".join(map(words.printable, names)), 200)
    return section(
        f"{words.shortened(trials.metric, 60)} by parameter",
        tag("div", *drawn, class_="charts") if drawn else None,
        tag("p", f"Not drawn: {left_out}.", class_="note") if names and drawn else None,
    )


def _over(trials: Trials, parameter: Parameter) -> Markup:
    """Numbers as a scatter, words as strips of dots."""
    drawn = _strips(trials, parameter) if parameter.values is not None else _scatter(trials, parameter)
    return tag("div", tag("h3", parameter.name), drawn)


def _scatter(trials: Trials, parameter: Parameter) -> Markup:
    pairs = [
        (value, trial)
        for trial in trials.points
        if (value := number(trial.params.get(parameter.name))) is not None
    ]
    points = [(value, trial.value) for value, trial in pairs]
    best = _best_value(trials)
    at = number(trials.rows[0].get(parameter.name)) if best is not None else None
    rings = [Ring(at, best, "best")] if at is not None and best is not None else []
    x = scales.of_numbers(parameter.name, [value for value, _ in points] + [ring.x for ring in rings])
    y = _axis(trials, [value for _, value in points] + [ring.y for ring in rings])
    titles = [_title(trial, trials.metric or "") for _, trial in pairs]
    return chart(x, y, [Series("trials", points, titles=titles)], rings=rings, small=True)


def _strips(trials: Trials, parameter: Parameter) -> Markup:
    """A word on each line, the first one on top, and the objective to the right."""
    from_below = list(reversed(parameter.values or ()))
    places = {each: index for index, each in enumerate(from_below)}
    points: list[tuple[float, float]] = []
    titles: list[str] = []
    for turn, trial in enumerate(trials.points):
        place = places.get(word(trial.params.get(parameter.name)))
        if place is not None:
            points.append((trial.value, place + (turn * GOLDEN % 1 - 0.5) * 0.5))
            titles.append(_title(trial, trials.metric or ""))
    best = _best_value(trials)
    at = places.get(word(trials.rows[0].get(parameter.name))) if best is not None else None
    rings = [Ring(best, at, "best")] if at is not None and best is not None else []
    x = _axis(trials, [value for value, _ in points] + [ring.x for ring in rings])
    y = scales.of_words(parameter.name, from_below)
    height = TOP + BOTTOM + ROW * max(3, len(places))
    return chart(x, y, [Series("trials", points, titles=titles)], rings=rings, small=True, height=height)


def _nodes(trials: Trials) -> Markup:
    """How long trials took on each node."""
    if not trials.nodes:
        return Markup()
    length, unit = unit_of(max(use.longest_s for use in trials.nodes))
    drawn = boxes([_box(use, length) for use in trials.nodes], f"{unit} of a trial")
    columns = ("node", "trials", "shortest", "median", "mean", "longest", "in all")
    rows: list[tuple[Content, ...]] = [
        (
            use.node,
            format_number(use.trials),
            *map(format_seconds, (use.shortest_s, use.median_s, use.total_s / use.trials, use.longest_s)),
            format_seconds(use.total_s),
        )
        for use in trials.nodes
    ]
    explained = (
        "From the shortest to the longest; the middle half of the trials is thick, the median is marked."
    )
    return section(
        "Durations by node",
        drawn,
        tag("p", explained, class_="note"),
        table(columns, rows, right=columns[1:]),
    )


def _box(use: NodeUse, length: float) -> Box:
    spread = (use.shortest_s, use.quarter_s, use.median_s, use.three_quarters_s, use.longest_s)
    least, quarter, median, three_quarters, most = (value / length for value in spread)
    return Box(use.node, (least, quarter, median, three_quarters, most))
