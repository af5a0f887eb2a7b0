"""Pieces of HTML that cannot be broken out of: whatever is not made here is text, and is escaped. Knows no run."""

from __future__ import annotations

from html import escape

from shoal.words import printable, shortened

LONGEST, LONGEST_ATTRIBUTE = 400, 1_000_000
"""Characters of one piece of text, which is cut there; lines of a drawing are attributes, and are long."""


class Markup(str):
    """HTML that was made here. Any other string is text."""

    __slots__ = ()


Content = str | int | float | None
"""What an element may hold. Strings that are no `Markup` are text, and numbers are written as they are."""


def text(value: Content, longest: int = LONGEST) -> Markup:
    """Text as HTML, in one line, with nothing in it that has a meaning to a browser."""
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else escape(shortened(printable(str(value)), longest)))


def tag(name: str, *content: Content, **attributes: Content) -> Markup:
    """An element. `class_` is the attribute `class`, `stroke_width` is `stroke-width`; None leaves one out."""
    told = "".join(
        f' {each.rstrip("_").replace("_", "-")}="{text(value, LONGEST_ATTRIBUTE)}"'
        for each, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{join(*content)}</{name}>")


def join(*content: Content) -> Markup:
    return Markup("".join(text(each) for each in content))


def table(
    columns: tuple[str, ...], rows: list[tuple[Content, ...]], *, right: tuple[str, ...] = ()
) -> Markup:
    """A table with a head; the columns named in `right` are numbers, and stand to the right."""
    classes = ["number" if name in right else None for name in columns]
    head = tag("tr", *(tag("th", name, class_=each) for name, each in zip(columns, classes, strict=True)))
    lines = [
        tag("tr", *(tag("td", cell, class_=each) for cell, each in zip(row, classes, strict=True)))
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *lines)), class_="wide")
