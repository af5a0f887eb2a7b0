"""What a page shows of a sweep: its best trials, the objective over time and over each parameter, durations."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.units import format_number, format_seconds, unit_of
from shoal.work.pages import (
    Block,
    Box,
    Boxes,
    Chart,
    Page,
    Paragraph,
    Ring,
    Row,
    Scale,
    Section,
    Series,
    Table,
    Tile,
    counted,
)
from shoal.work.sweep.trials import NodeUse, Parameter, Trial, Trials, number, trials, word

if TYPE_CHECKING:
    from shoal.store import RunInfo, RunStore

MOST_PARAMETERS = 6
MOST_COLUMNS = 12
MOST_LINES = 6
LONGEST_CELL = 60
GOLDEN = 0.618
"""Dots of one word are spread by multiples of it: next to each other, and never in a pattern."""


def page(store: RunStore, info: RunInfo) -> Page:
    found = trials(store, info.started or info.created)
    tiles = counted(info, "trial")
    best = _best_value(found)
    if best is not None:
        tiles.append(Tile(f"best {words.shortened(words.printable(found.metric or ''), 40)}", f"{best:.6g}"))
    sections = [
        _table(info, found),
        *_by_word(found),
        *_over_time(found),
        *_over_parameters(found),
        *_nodes(found),
    ]
    return Page(tiles, sections)


def _best_value(trials: Trials) -> float | None:
    """What the best trial gave, where something says what is best."""
    return number(trials.rows[0].get(trials.metric)) if trials.is_ranked and trials.metric else None


def _table(info: RunInfo, trials: Trials) -> Section:
    title = "The best trials" if trials.is_ranked else "The first trials"
    if not trials.rows:
        return Section(title, [Paragraph("There are none yet.")])
    columns = trials.columns[:MOST_COLUMNS]
    right = [name for name in columns if _is_numeric(trials.rows, name)]
    rows = [
        [_seconds(row.get(name)) if name == "seconds" else _cell(row.get(name)) for name in columns]
        for row in trials.rows
    ]
    hidden = len(trials.columns) - len(columns)
    more = f" There are {hidden} more columns." if hidden else ""
    all_rows = Paragraph(f"All of them:{more} ", f"shoal results {info.run}", is_note=True)
    return Section(title, [Table(columns, rows, right), all_rows])


def _is_numeric(rows: Sequence[dict[str, Any]], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(number(value) is not None for value in values)


def _cell(value: Any) -> str:
    return "" if value is None else words.shortened(words.number(value), LONGEST_CELL)


def _seconds(value: Any) -> str:
    return "" if value is None else f"{value:.3f}"


def _by_word(trials: Trials) -> list[Section]:
    """The objective over the one parameter that is a number, with a line for each word of another one.

    Nothing where trials with equal number and word differ in something else, too.
    """
    numbers = [each.name for each in trials.parameters if each.values is None]
    named = next((each for each in trials.parameters if each.values and len(each.values) <= MOST_LINES), None)
    if trials.metric is None or len(numbers) != 1 or named is None or trials.left_out:
        return []
    others = [each.name for each in trials.parameters if each.name not in (named.name, numbers[0])]
    lines: dict[str, dict[float, list[float]]] = {name: {} for name in named.values or ()}
    rest: dict[tuple[str, float], tuple[str, ...]] = {}
    for trial in trials.points:
        name, at = word(trial.params.get(named.name)), number(trial.params.get(numbers[0]))
        if at is None or name not in lines:
            return []
        other = tuple(word(trial.params.get(each)) for each in others)
        if rest.setdefault((name, at), other) != other:
            return []
        lines[name].setdefault(at, []).append(trial.value)
    series = [
        Series(name, sorted((at, fmean(values)) for at, values in line.items()), "joined", colour)
        for colour, (name, line) in enumerate(lines.items())
        if line
    ]
    if max((len(each.points) for each in series), default=0) < 2:
        return []
    title = words.shortened(f"{trials.metric} by {numbers[0]} and {named.name}", 80)
    drawn = Chart(Scale(numbers[0], from_zero=True), Scale(trials.metric, from_zero=True), series)
    return [Section(title, [drawn])]


def _over_time(trials: Trials) -> list[Section]:
    if trials.metric is None or not trials.points:
        return []
    length, unit = unit_of(max(trial.ended_s for trial in trials.points))
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
    x = Scale(f"{unit} since it began", from_zero=True)
    drawn = Chart(x, _scale(trials), series)
    return [Section(f"{words.shortened(trials.metric, 60)} over time", [drawn, *_thinned(trials)])]


def _thinned(trials: Trials) -> list[Block]:
    if trials.measured <= len(trials.points):
        return []
    shown, all_of_them = f"{len(trials.points):,}", f"{trials.measured:,}"
    return [Paragraph(f"Drawn are {shown} of the {all_of_them} trials, picked at random.", is_note=True)]


def _title(trial: Trial, metric: str) -> str:
    return f"{trial.item}: {metric} {trial.value:.6g} ({words.parameters(trial.params, 120)})"


def _scale(trials: Trials) -> Scale:
    """Of the objective: what is to be small, such as a loss, may differ by powers of ten."""
    return Scale(trials.metric or "", "numbers" if trials.goal == "min" else "linear")


def _over_parameters(trials: Trials) -> list[Section]:
    drawn = [_over(trials, each) for each in trials.parameters[:MOST_PARAMETERS]]
    if trials.metric is None or not trials.points or not drawn:
        return []
    names = [*(each.name for each in trials.parameters[MOST_PARAMETERS:]), *trials.left_out]
    blocks: list[Block] = [Row(drawn)]
    if names:
        left_out = words.shortened(", ".join(map(words.printable, names)), 200)
        blocks.append(Paragraph(f"Not drawn: {left_out}.", is_note=True))
    return [Section(f"{words.shortened(trials.metric, 60)} by parameter", blocks)]


def _over(trials: Trials, parameter: Parameter) -> Chart:
    """Numbers as a scatter, words as strips of dots."""
    return _strips(trials, parameter) if parameter.values is not None else _scatter(trials, parameter)


def _scatter(trials: Trials, parameter: Parameter) -> Chart:
    pairs = [
        (value, trial)
        for trial in trials.points
        if (value := number(trial.params.get(parameter.name))) is not None
    ]
    points = [(value, trial.value) for value, trial in pairs]
    best = _best_value(trials)
    at = number(trials.rows[0].get(parameter.name)) if best is not None else None
    rings = [Ring(at, best, "best")] if at is not None and best is not None else []
    titles = [_title(trial, trials.metric or "") for _, trial in pairs]
    series = [Series("trials", points, titles=titles)]
    return Chart(Scale(parameter.name, "numbers"), _scale(trials), series, rings, parameter.name)


def _strips(trials: Trials, parameter: Parameter) -> Chart:
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
    y = Scale(parameter.name, words=from_below)
    return Chart(_scale(trials), y, [Series("trials", points, titles=titles)], rings, parameter.name)


def _nodes(trials: Trials) -> list[Section]:
    """How long trials took on each node."""
    if not trials.nodes:
        return []
    length, unit = unit_of(max(use.longest_s for use in trials.nodes))
    columns = ("node", "trials", "shortest", "median", "mean", "longest", "in all")
    rows = [
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
    drawn = Boxes([_box(use, length) for use in trials.nodes], f"{unit} of a trial")
    return [
        Section(
            "Durations by node",
            [drawn, Paragraph(explained, is_note=True), Table(columns, rows, columns[1:])],
        )
    ]


def _box(use: NodeUse, length: float) -> Box:
    spread = (use.shortest_s, use.quarter_s, use.median_s, use.three_quarters_s, use.longest_s)
    least, quarter, median, three_quarters, most = (value / length for value in spread)
    return Box(use.node, (least, quarter, median, three_quarters, most))
