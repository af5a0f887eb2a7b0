"""What a kind shows on the page about a run, as values: tiles, sections and what is in them. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from shoal.store import RunInfo

STATES = ("failed", "pruned", "stopped", "running", "waiting")
"""Of items: those that have a tile of their own."""


class Tile(NamedTuple):
    """A figure at the top of the page."""

    label: str
    value: str


class Paragraph(NamedTuple):
    text: str
    code: str = ""
    """A command that follows the text."""
    is_note: bool = False


class Heading(NamedTuple):
    """Of a part of a section."""

    text: str


class Table(NamedTuple):
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float | None]]
    right: Sequence[str] = ()
    """Columns of numbers, which stand to the right."""


class Scale(NamedTuple):
    """An axis of a chart: it reaches as far as what is drawn."""

    label: str
    by: str = "linear"
    """`linear`, `doubling` (whole numbers, by powers of two), or `numbers` (by logarithms where that shows more)."""
    from_zero: bool = False
    least: float = 0.0
    """How far marks are apart, at least."""
    words: Sequence[str] | None = None
    """Given for an axis of words: the value of a word is its index."""


class Series(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]
    look: str = "dots"
    """`dots`, `line`, `joined` (both), or `steps`."""
    colour: int = 0
    titles: Sequence[str] = ()
    """What each dot says of itself; none, or one for each."""


class Ring(NamedTuple):
    """A mark around one place."""

    x: float
    y: float
    label: str


class Chart(NamedTuple):
    """Series over two axes."""

    x: Scale
    y: Scale
    series: Sequence[Series]
    rings: Sequence[Ring] = ()
    title: str = ""
    """Given for charts of which several stand side by side."""


class Bars(NamedTuple):
    rows: Sequence[tuple[str, float, str]]
    """Name, value, and the value in words."""
    label: str


class Box(NamedTuple):
    """How values are spread: least, a quarter, middle, three quarters, most."""

    name: str
    spread: tuple[float, float, float, float, float]


class Boxes(NamedTuple):
    """Spreads of several, on one axis."""

    rows: Sequence[Box]
    label: str


class Row(NamedTuple):
    """Small charts side by side."""

    charts: Sequence[Chart]


class Details(NamedTuple):
    """What is there for those who open it."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = "Paragraph | Heading | Table | Chart | Bars | Boxes | Row | Details"


class Section(NamedTuple):
    """A heading with what belongs to it; one without blocks is not shown."""

    title: str
    blocks: Sequence[Block]


class Page(NamedTuple):
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()


def counted(info: RunInfo, item: str) -> list[Tile]:
    """How many items there are, by state; `item` is what one is called."""
    done = info.items.get("done", 0) + info.items.get("cached", 0)
    of = "" if info.total is None else f" of {info.total:,}"
    others = [Tile(state, f"{info.items[state]:,}") for state in STATES if info.items.get(state)]
    return [Tile(f"{item}s done", f"{done:,}{of}"), *others]
