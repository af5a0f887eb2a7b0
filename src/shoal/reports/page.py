"""A report as one page: its style, its top and bottom, and the order of its sections. Needs no other file."""

from __future__ import annotations

from shoal import __version__
from shoal.api.views.overview import Overview
from shoal.reports import blocks, sections
from shoal.reports.markup import Markup, join, tag
from shoal.units import format_seconds
from shoal.work.pages import Tile

BEGINNING = "<!DOCTYPE html>"
NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load and run nothing: it has to be true even where something was not escaped."""
STYLE = """
:root{color-scheme:light dark;--ground:#fff;--card:#f4f6f8;--ink:#1c2430;--faint:#5d6978;--rule:#dde2e8;
--good:#1d7a4b;--bad:#b3261e;--busy:#1c62b5;--c0:#1f6fb5;--c1:#c4520e;--c2:#22845a;--c3:#7d4bb5;--c4:#a8335e;--c5:#6d6a00}
@media (prefers-color-scheme:dark){:root{--ground:#12161c;--card:#1b212a;--ink:#e4e9ef;--faint:#98a4b3;--rule:#2c3542;
--good:#5cc98f;--bad:#ff8a80;--busy:#7db4ff;--c0:#6db3f2;--c1:#ff9e5e;--c2:#5fcf9a;--c3:#bd97f0;--c4:#f287ae;--c5:#d2cc4f}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:920px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:1.7em;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.2em;margin:40px 0 10px;padding-top:14px;border-top:1px solid var(--rule)}
h3{font-size:1em;margin:22px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0 10px}
.about,.note,footer,figcaption{color:var(--faint)}
.state{font-size:.55em;font-weight:600;vertical-align:middle;padding:3px 10px;border-radius:99px;
border:1px solid currentColor;color:var(--busy);white-space:nowrap}
.succeeded{color:var(--good)}.failed,.interrupted{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:20px 0 6px}
.tile{background:var(--card);border-radius:8px;padding:10px 14px;overflow-wrap:anywhere}
.tile b{display:block;font-size:1.2em;font-weight:600;line-height:1.4;font-variant-numeric:tabular-nums}
.tile span{color:var(--faint);font-size:.87em}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:8px 24px}
svg{display:block;width:100%;max-width:760px;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--faint);font-variant-numeric:tabular-nums}
.grid{stroke:var(--rule);fill:none}
.line{stroke:currentColor;stroke-width:1.8;fill:none}
.dots{stroke:currentColor;stroke-width:5;stroke-linecap:round;fill:none;opacity:.65}
circle{fill:currentColor;opacity:.85}
.bar{fill:currentColor}
.median{stroke:var(--ink);stroke-width:2.5}
.ring circle{fill:none;stroke:var(--ink);stroke-width:2;opacity:1}
.ring text{fill:var(--ink);font-weight:600}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}.c5{color:var(--c5)}
.legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:4px 0 10px;font-size:.9em}
.legend i{display:inline-block;width:10px;height:10px;border-radius:50%;background:currentColor;margin-right:6px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9em;margin:8px 0}
th,td{text-align:left;padding:5px 14px 5px 0;vertical-align:top;border-bottom:1px solid var(--rule)}
th{color:var(--faint);font-weight:500;white-space:nowrap}
td{overflow-wrap:break-word;max-width:44em;font-variant-numeric:tabular-nums}
.number{text-align:right;white-space:nowrap}
summary{cursor:pointer;color:var(--faint);margin:8px 0}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
footer{margin-top:44px;font-size:.87em}
""".strip()


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
