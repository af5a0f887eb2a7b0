"""Charts as SVG inside of a page: dots, lines, bars. Colours come from the page's style. Knows no run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shoal.reports.markup import Markup, join, tag
from shoal.reports.scales import Axis, linear
from shoal.words import printable, shortened
from shoal.work.pages import Box, Ring, Series

WIDTH, HEIGHT = 640, 260
SMALL_WIDTH, SMALL_HEIGHT = 400, 230
TOP, RIGHT, BOTTOM = 24, 18, 44
LETTER = 6.6
"""About how wide a letter is."""
LONGEST_WORD = 20
NAMED = 150
"""Up to so many dots say what they are when one points at them; more are drawn in one go."""
ROW = 24
"""How high a bar is, with the room around it."""
COLOURS = 6


class Frame(NamedTuple):
    """Where the axes are."""

    x: Axis
    y: Axis
    left: float
    width: float
    height: float

    def across(self, value: float) -> float:
        return self.left + self.x.at(value) * self.width

    def down(self, value: float) -> float:
        return TOP + (1 - self.y.at(value)) * self.height

    def place(self, point: tuple[float, float]) -> str:
        return f"{_short(self.across(point[0]))} {_short(self.down(point[1]))}"


def chart(
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    *,
    rings: Iterable[Ring] = (),
    small: bool = False,
    height: int | None = None,
) -> Markup:
    """Series over two axes, with a legend where there are several."""
    width, high = (SMALL_WIDTH, SMALL_HEIGHT) if small else (WIDTH, HEIGHT)
    high = height or high
    longest = max([len(_word(mark.label)) for mark in y.marks] or [1])
    left = 26 + longest * LETTER
    frame = Frame(x, y, left, width - left - RIGHT, high - TOP - BOTTOM)
    drawn = svg(
        width,
        high,
        f"{y.label} by {x.label}",
        *_grid(frame),
        *(_series(frame, each) for each in series),
        *(_ring(frame, each) for each in rings),
    )
    return join(drawn, legend(series) if len(series) > 1 else None)


def svg(width: float, height: float, described: str, *content: Markup) -> Markup:
    """A drawing that is as wide as its place, and says what it is to who cannot see it."""
    box = f"0 0 {width:g} {_short(height)}"
    return tag("svg", *content, viewBox=box, role="img", aria_label=described)


def legend(series: Iterable[Series]) -> Markup:
    entries = [
        tag("span", tag("i", class_=f"c{each.colour % COLOURS}"), each.name) for each in series if each.name
    ]
    return tag("p", *entries, class_="legend")


def _grid(frame: Frame) -> list[Markup]:
    bottom, right = TOP + frame.height, frame.left + frame.width
    found = []
    for mark in frame.y.marks:
        at = _short(TOP + (1 - mark.at) * frame.height)
        found.append(tag("path", d=f"M{_short(frame.left)} {at}H{_short(right)}", class_="grid"))
        found.append(_label(frame.left - 7, float(at) + 4, _word(mark.label), "end"))
    widest = max([len(_word(mark.label)) for mark in frame.x.marks] or [1]) * LETTER + 10
    every = max(1, -(-int(widest * len(frame.x.marks)) // max(1, int(frame.width))))
    for mark in frame.x.marks[::every]:
        at = _short(frame.left + mark.at * frame.width)
        found.append(tag("path", d=f"M{at} {TOP}V{_short(bottom)}", class_="grid"))
        found.append(_label(float(at), bottom + 17, _word(mark.label), "middle"))
    found.append(_label(frame.left + frame.width / 2, bottom + 36, shortened(frame.x.label, 60), "middle"))
    found.append(_label(4, 11, shortened(frame.y.label, 60), "start"))
    return found


def _series(frame: Frame, series: Series) -> Markup:
    places = [frame.place(each) for each in series.points]
    parts: list[Markup] = []
    if series.look in ("line", "joined") and places:
        parts.append(tag("path", d=f"M{'L'.join(places)}", class_="line"))
    if series.look == "steps" and places:
        parts.append(tag("path", d=_steps(frame, series.points), class_="line"))
    if series.look in ("dots", "joined"):
        parts += _dots(places, series.titles)
    return tag("g", *parts, class_=f"c{series.colour % COLOURS}")


def _dots(places: Sequence[str], titles: Sequence[str]) -> list[Markup]:
    if titles and len(places) <= NAMED:
        pairs = zip((place.split() for place in places), titles, strict=True)
        return [tag("circle", tag("title", title), cx=x, cy=y, r=3.5) for (x, y), title in pairs]
    # A line of no length with round ends is a dot, and takes a fraction of the room of a circle.
    return [tag("path", d="".join(f"M{place}h0" for place in dict.fromkeys(places)), class_="dots")]


def _steps(frame: Frame, points: Sequence[tuple[float, float]]) -> str:
    """Level until the next point, and to the right edge in the end."""
    path = f"M{frame.place(points[0])}"
    for x, y in points[1:]:
        path += f"H{_short(frame.across(x))}V{_short(frame.down(y))}"
    return f"{path}H{_short(frame.left + frame.width)}"


def _ring(frame: Frame, ring: Ring) -> Markup:
    x, y = frame.across(ring.x), frame.down(ring.y)
    near_right = x > frame.left + frame.width - len(ring.label) * LETTER - 14
    if y > TOP + 16:
        anchor = "end" if near_right else "start" if x < frame.left + 40 else "middle"
        label = _label(x, y - 13, ring.label, anchor)
    else:  # There is no room above it.
        label = _label(x - 13 if near_right else x + 13, y + 5, ring.label, "end" if near_right else "start")
    return tag(
        "g",
        tag("circle", cx=_short(x), cy=_short(y), r=8),
        label,
        class_="ring",
    )


def bars(rows: Sequence[tuple[str, float, str]], described: str) -> Markup:
    """Bars to the right, from a name, a value, and the value in words."""
    left = 16 + max([len(_word(name)) for name, _, _ in rows] or [1]) * LETTER
    room = WIDTH - left - 12 - max([len(told) for _, _, told in rows] or [1]) * LETTER
    most = max([value for _, value, _ in rows] or [0.0]) or 1.0
    content = []
    for number, (name, value, told) in enumerate(rows):
        at, width = number * ROW, max(1.0, value / most * room)
        content.append(_label(left - 8, at + 16, _word(name), "end"))
        content.append(
            tag("rect", x=_short(left), y=at + 4, width=_short(width), height=ROW - 8, rx=2, class_="bar c0")
        )
        content.append(_label(left + width + 6, at + 16, told, "start"))
    return svg(WIDTH, ROW * len(rows) + 4, described, *content)


def boxes(rows: Sequence[Box], label: str) -> Markup:
    """Spreads of several, one above the other, on one axis."""
    axis = linear(label, [value for row in rows for value in row.spread], from_zero=True)
    longest = max([len(_word(row.name)) for row in rows] or [1])
    left, height = 26 + longest * LETTER, ROW * len(rows)
    frame = Frame(axis, Axis("", 0, 1, ()), left, WIDTH - left - RIGHT, height)
    content = _grid(frame)
    for number, row in enumerate(rows):
        middle = TOP + number * ROW + ROW / 2
        least, quarter, median, three_quarters, most = map(frame.across, row.spread)
        box = tag(
            "rect",
            x=_short(quarter),
            y=_short(middle - 7),
            width=_short(max(1.0, three_quarters - quarter)),
            height=14,
            class_="bar",
        )
        whisker = tag("path", d=f"M{_short(least)} {_short(middle)}H{_short(most)}", class_="line")
        tick = tag("path", d=f"M{_short(median)} {_short(middle - 9)}v18", class_="median")
        content += [
            _label(left - 7, middle + 4, _word(row.name), "end"),
            tag("g", whisker, box, class_="c0"),
            tick,
        ]
    return svg(WIDTH, height + TOP + BOTTOM, f"{label} by node", *content)


def span(low: float, middle: float, high: float, actual: float, label: str) -> Markup:
    """A range that was predicted, and what it came to."""
    axis = linear(label, [low, high, actual, 0.0], from_zero=True)
    frame = Frame(axis, Axis("", 0, 1, ()), 12, WIDTH - 30, ROW)
    at = TOP + ROW / 2
    left, right = frame.across(low), frame.across(high)
    content = [
        *_grid(frame),
        tag(
            "rect",
            x=_short(left),
            y=_short(at - 7),
            width=_short(max(1.0, right - left)),
            height=14,
            rx=2,
            class_="bar c0",
        ),
        tag("path", d=f"M{_short(frame.across(middle))} {_short(at - 9)}v18", class_="median"),
        tag("circle", cx=_short(frame.across(actual)), cy=_short(at), r=6, class_="bar c1"),
    ]
    return svg(WIDTH, ROW + TOP + BOTTOM, f"predicted and actual {label}", *content)


def _label(x: float, y: float, words: str, anchor: str) -> Markup:
    return tag("text", words, x=_short(x), y=_short(y), text_anchor=anchor)


def _word(label: str) -> str:
    return shortened(printable(label), LONGEST_WORD)


def _short(position: float) -> str:
    """To a tenth of a pixel."""
    return f"{position:.1f}".removesuffix(".0")
