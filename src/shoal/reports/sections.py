"""What a report says of a run of any kind: predicted and actual time, decisions, failures, workers, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.api.views.overview import Overview
from shoal.reports import charts
from shoal.reports.markup import Content, Markup, join, table, tag, text
from shoal.units import format_seconds, unit_of

if TYPE_CHECKING:
    from shoal.work.pages import Tile

LONGEST_WHY = 2000


def section(title: str, *content: Content) -> Markup:
    """A heading with what belongs to it; nothing at all where there is nothing."""
    told = [each for each in content if each]
    return tag("section", tag("h2", title), *told) if told else Markup()


def tiles(entries: Iterable[Tile]) -> Markup:
    """The figures that people look for first."""
    made = [tag("div", tag("b", value), tag("span", label), class_="tile") for label, value in entries]
    return tag("div", *made, class_="tiles")


def when(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def prediction(found: Overview) -> Markup:
    """What was predicted, and what it came to."""
    info = found.info
    predicted = info.predicted_seconds
    if predicted is None:
        return Markup()
    low, middle, high = (float(predicted[name]) for name in ("low", "mid", "high"))
    took = format_seconds(info.seconds)
    if not found.is_over:
        verdict = f"It has taken {took} so far."
    elif low <= info.seconds <= high:
        verdict = f"It took {took}: within that range."
    else:
        which = "longer" if info.seconds > high else "shorter"
        verdict = f"It took {took}: {which} than that range."
    length, unit = unit_of(max(high, info.seconds))
    drawing = charts.span(low / length, middle / length, high / length, info.seconds / length, unit)
    return section(
        "Predicted and actual time",
        tag(
            "p",
            f"Predicted: {words.prediction(predicted)}. That range should hold nine times out of ten. {verdict}",
        ),
        drawing,
        tag(
            "p",
            tag("span", tag("i", class_="c0"), "the range, with the most likely time"),
            tag("span", tag("i", class_="c1"), "what it took"),
            class_="legend",
        ),
    )


def decisions(found: Overview) -> Markup:
    """What was decided before it began and found out while it ran, each with its reason."""
    planned, learned = map(_decided, (found.decisions, found.found_out))
    columns = ("what", "choice", "why")
    return section(
        "Decisions",
        tag("h3", "Before it began") if planned and learned else None,
        table(columns, planned) if planned else None,
        tag("h3", "Found out while it ran") if learned else None,
        table(columns, learned) if learned else None,
    )


def _decided(entries: Sequence[Mapping[str, Any]]) -> list[tuple[Content, ...]]:
    return [
        (
            name,
            words.choice(name, entry.get("choice")),
            text(str(entry.get("why") or ""), LONGEST_WHY),
        )
        for entry in entries
        if (name := str(entry.get("name") or "?"))
    ]


def failures(found: Overview) -> Markup:
    """Why items failed, counted."""
    reasons, run, what = found.failures, found.info.run, f"{found.item}s"
    if not reasons.shown:
        return Markup()
    rows: list[tuple[Content, ...]] = [(each.why, f"{each.items:,}", each.example) for each in reasons.shown]
    more = f"And {reasons.others:,} more, for other reasons." if reasons.others else None
    example = reasons.shown[0].example
    return section(
        f"Why {what} failed",
        table(("reason", what, "the first"), rows, right=(what,)),
        tag("p", more) if more else None,
        tag("p", "What it wrote: ", tag("code", f"shoal logs {run} {example}"), class_="note"),
    )


def workers(found: Overview) -> Markup:
    """Where the time of the last session's workers went."""
    if not found.workers:
        return Markup()
    uses = words.time_rows(found.workers)
    rows: list[tuple[Content, ...]] = [tuple(use[name] for name in words.TIME_COLUMNS) for use in uses]
    return section(
        "Where the time went",
        table(words.TIME_COLUMNS, rows, right=("start-up", "work", "idle", "items")),
        tag(
            "p",
            "Start-up is what a worker needed until it could take work, work what its items took, idle the rest of its"
            " life. Of the last session.",
            class_="note",
        ),
    )


def events(found: Overview) -> Markup:
    """Nodes that came and went, and what else happened."""
    rows: list[tuple[Content, ...]] = [
        (when(each.at), each.subject, each.what, each.why) for each in found.events
    ]
    return section("What happened", table(("when", "to", "what", "why"), rows) if rows else None)


def notes(found: Overview) -> Markup:
    return join(*(tag("p", f"Note: {text_of}") for text_of in found.notes))
