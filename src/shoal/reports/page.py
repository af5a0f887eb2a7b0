"""A report as one page: what is at its top and bottom, and the order of its sections. Needs no other file."""

from __future__ import annotations

from shoal import __version__
from shoal.api.views.overview import Overview
from shoal.reports import blocks, sections
from shoal.reports.markup import Markup, join, tag
from shoal.reports.style import STYLE
from shoal.units import format_seconds
from shoal.work.pages import Tile

BEGINNING = "<!DOCTYPE html>"
NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load and run nothing: it has to be true even where something was not escaped."""


def page(found: Overview) -> str:
    """The whole page, as the run was when it was looked at."""
    info = found.info
    head = join(
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_ELSE}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", f"{info.run}: {info.kind}, {info.state}"),
        tag("style", Markup(STYLE)),
    )
    body = tag("main", _top(found), *_sections(found), _bottom(found))
    return f'{BEGINNING}\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _sections(found: Overview) -> list[Markup]:
    return [
        *(blocks.section(each) for each in found.page.sections),
        sections.prediction(found),
        sections.failures(found),
        sections.workers(found),
        sections.events(found),
        sections.decisions(found),
    ]


def _top(found: Overview) -> Markup:
    info = found.info
    took = Tile("took" if found.is_over else "so far", format_seconds(info.seconds))
    return join(
        tag("h1", info.run, " ", tag("span", info.state, class_=f"state {info.state}")),
        tag("p", f"{info.kind} {info.name}, begun {sections.when(info.created)}", class_="about"),
        _still(found),
        sections.tiles([*found.page.tiles, took]),
        sections.notes(found),
    )


def _still(found: Overview) -> Markup:
    """What has to be known of a run that has not ended."""
    run, state = found.info.run, found.info.state
    if found.is_over:
        return Markup()
    if state == "interrupted":
        return tag("p", "Its driver is gone. Go on with: ", tag("code", f"shoal resume {run}"))
    return tag("p", f"It is {state}: this is how it was at {sections.when(found.at)}.")


def _bottom(found: Overview) -> Markup:
    run = found.info.run
    return tag(
        "footer",
        f"Results: {found.results}. Written by Shoal {__version__} at {sections.when(found.at)}; ",
        tag("code", f"shoal report {run}"),
        " writes it anew.",
    )
