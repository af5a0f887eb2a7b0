"""A run's numbers in words, the same on the terminal, in a notebook and in plain lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.model.item import shown
from shoal.units import format_seconds, format_size

if TYPE_CHECKING:
    from shoal.model.record import WorkerUse


LONGEST = 200
REASONS_SHOWN, LONGEST_REASON = 3, 120
STATES = ("done", "cached", "failed", "pruned", "stopped", "running", "waiting")
TIME_COLUMNS = ("worker", "node", "start-up", "work", "idle", "items")
WORKERS_SHOWN = 16


def printable(text: str) -> str:
    """One line, with nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sentence(error: str | None, longest: int = LONGEST) -> str:
    """The first line of an error, short enough to be read in passing."""
    first = next((line.strip() for line in (error or "").splitlines() if line.strip()), "no reason given")
    return shortened(printable(first), longest)


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def parameters(params: Mapping[str, Any], longest: int = 60) -> str:
    """`lr=0.1 model=2`."""
    return shortened(
        " ".join(
            f"{printable(name)}={number(value)}" for name, value in shown(params).items() if value is not None
        ),
        longest,
    )


def choice(name: str, chosen: Any) -> str:
    """What was decided, as people read it: the decision `memory` is bytes, `prediction` seconds."""
    if chosen is None:
        return "none"
    if name.split()[0] == "memory" and isinstance(chosen, int):
        return format_size(chosen)
    if name == "prediction" and isinstance(chosen, int | float):
        return format_seconds(chosen)
    return number(chosen)


def some(number_of: int | None, what: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number_of or 0:,} {named(number_of, what)}"


def named(number_of: int | None, what: str) -> str:
    """`row` for one, else `rows`."""
    return what if number_of == 1 else f"{what}s"


def reasons(found: Mapping[str, int], total: int) -> list[str]:
    """The most frequent of these reasons, a line each, and how many of the `total` they leave out."""
    shown = sorted(found.items(), key=lambda each: -each[1])[:REASONS_SHOWN]
    lines = [f"  {count:,} x {shortened(printable(reason), LONGEST_REASON)}" for reason, count in shown]
    rest = total - sum(count for _, count in shown)
    return [*lines, f"  and {rest:,} more"] if rest > 0 else lines


def counts(found: Mapping[str, int], nothing: str = "", of: str = "") -> str:
    """`12 done, 1 failed`: the states that any items are in; with `of`, `12 items done, 1 failed`."""
    known = [state for state in STATES if found.get(state)]
    told = [f"{found[state]} {state}" for state in known]
    if of and known:
        told[0] = f"{some(found[known[0]], of)} {known[0]}"
    return ", ".join(told) or nothing


def rate(per_second: float) -> str:
    """`25.3/s`, `4.2/min`, `1.5/h`: whichever has a number that can be read."""
    for amount, unit in ((per_second, "s"), (per_second * 60, "min"), (per_second * 3600, "h")):
        if amount >= 1 or unit == "h":
            return f"{amount:.0f}/{unit}" if amount >= 100 else f"{amount:.1f}/{unit}"
    raise AssertionError


def prediction(predicted: Mapping[str, float]) -> str:
    """`23s (20s to 26s)`."""
    low, high = format_seconds(predicted["low"]), format_seconds(predicted["high"])
    return f"{format_seconds(predicted['mid'])} ({low} to {high})"


def time_rows(uses: Sequence[WorkerUse]) -> list[dict[str, Any]]:
    """One for each worker, those beyond the first few together, and all of them together."""
    found = [_time_row(str(n), use.node, [use]) for n, use in enumerate(uses[:WORKERS_SHOWN], 1)]
    if len(uses) > WORKERS_SHOWN:
        rest = uses[WORKERS_SHOWN:]
        found.append(_time_row(f"{len(rest)} more", "", rest))
    if len(uses) > 1:
        found.append(_time_row("all", "", uses))
    return found


def _time_row(name: str, node: str, uses: Sequence[WorkerUse]) -> dict[str, Any]:
    return {
        "worker": name,
        "node": node,
        "start-up": format_seconds(sum(use.startup_s for use in uses)),
        "work": format_seconds(sum(use.work_s for use in uses)),
        "idle": format_seconds(sum(use.idle_s for use in uses)),
        "items": sum(use.items for use in uses),
    }
