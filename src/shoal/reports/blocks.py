"""What a kind shows on the page about a run, from values to HTML. Knows no kind."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.reports import charts, scales, sections
from shoal.reports.markup import Markup, join, table, tag
from shoal.reports.scales import Axis
from shoal.work.pages import (
    Bars,
    Block,
    Boxes,
    Chart,
    Details,
    Heading,
    Paragraph,
    Row,
    Scale,
    Section,
    Table,
)


def section(given: Section) -> Markup:
    return sections.section(given.title, *map(block, given.blocks))


def block(given: Block) -> Markup:
    match given:
        case Heading(text):
            return tag("h3", text)
        case Paragraph(text, code, is_note):
            command = tag("code", code) if code else None
            return tag("p", text, command, class_="note" if is_note else None)
        case Table(columns, rows, right):
            return table(tuple(columns), [tuple(row) for row in rows], right=tuple(right))
        case Chart():
            return _chart(given)
        case Row(side_by_side):
            drawn = [tag("div", tag("h3", each.title), _chart(each, small=True)) for each in side_by_side]
            return tag("div", *drawn, class_="charts")
        case Bars(bars, label):
            return charts.bars(bars, label)
        case Boxes(boxes, label):
            return charts.boxes(boxes, label)
        case Details(summary, blocks):
            return tag("details", tag("summary", summary), join(*map(block, blocks)))


def _chart(given: Chart, *, small: bool = False) -> Markup:
    points = [point for series in given.series for point in series.points]
    points += [(ring.x, ring.y) for ring in given.rings]
    x, y = _axis(given.x, [at for at, _ in points]), _axis(given.y, [at for _, at in points])
    return charts.chart(x, y, given.series, rings=given.rings, small=small, height=_height(given.y.words))


def _height(lines: Sequence[str] | None) -> int | None:
    """A line of words is as high as a bar; numbers take what there is."""
    return None if lines is None else charts.TOP + charts.BOTTOM + charts.ROW * max(3, len(lines))


def _axis(scale: Scale, values: list[float]) -> Axis:
    if scale.words is not None:
        return scales.of_words(scale.label, scale.words)
    if scale.by == "doubling":
        return scales.doubling(scale.label, values)
    if scale.by == "numbers":
        return scales.of_numbers(scale.label, values)
    return scales.linear(scale.label, values, from_zero=scale.from_zero, least=scale.least)
