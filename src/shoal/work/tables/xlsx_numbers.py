"""Numbers in a sheet as people see them: plain numbers, numbers padded with zeros, dates and times.

Dates and times become ISO text. Other number formats (percent, currency, decimals) do not change a number.
"""

from __future__ import annotations

from re import IGNORECASE
from re import compile as compile_pattern

from shoal.spec.cell import Cell
from shoal.work.tables.table_problems import CellError

DATE, MOMENT, TIME, ELAPSED = "date", "moment", "time", "elapsed"
LARGEST_EXACT = 1 << 53
DAY_MS = 86_400_000
_QUOTED = compile_pattern(r'"[^"]*"|[\\_*].|\[(?!h+\]|m+\]|s+\])[^\]]*\]', IGNORECASE)
_ELAPSED = compile_pattern(r"\[[hms]+\]", IGNORECASE)
_BUILT_IN = {
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), 34, 35, 36, *range(50, 59)), DATE),
    **dict.fromkeys((18, 19, 20, 21, 32, 33, 45, 47), TIME),
    22: MOMENT,
    46: ELAPSED,
}


def number_style(code: str | int) -> str:
    """How a number format shows numbers: a kind of date, the zeros of `000`, or nothing for the rest."""
    if isinstance(code, int):
        return _BUILT_IN.get(code, "")
    if len(code) > 1 and not code.strip("0"):
        return code
    shown = _QUOTED.sub("", code).partition(";")[0].lower()
    if _ELAPSED.search(shown):
        return ELAPSED
    if "general" in shown or not set(shown) & set("dmyhs"):
        return ""
    days, hours = bool(set(shown) & set("dy")), bool(set(shown) & set("hs"))
    if hours:
        return MOMENT if days else TIME
    return DATE


def number_cell(text: str, style: str, from_1904: bool) -> Cell:
    """The cell for a number; whole numbers are integers, since a sheet does not tell 3 from 3.0."""
    try:
        number: int | float = int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise CellError(f"{text[:40]!r} is not a number", hint="Correct it.") from None
    if style.isalpha():
        shown = moment_text(number, style, from_1904)
        return Cell(shown, shown)
    if isinstance(number, float) and abs(number) < LARGEST_EXACT and number == int(number):
        number = int(number)
    if style and isinstance(number, int):
        return Cell(number, f"{'-' if number < 0 else ''}{abs(number):0{len(style)}d}")
    return Cell(number, repr(number))


def moment_text(number: float, style: str, from_1904: bool) -> str:
    """ISO text for a count of days, to the millisecond as spreadsheets have it."""
    from datetime import datetime, timedelta

    try:
        total_ms = round(number * DAY_MS)
        if style == ELAPSED:
            return elapsed_text(total_ms)
        days, rest_ms = divmod(total_ms, DAY_MS)
        if 0 < days < 60 and not from_1904:
            days += 1  # the calendar of spreadsheets has a 29 February 1900
        epoch = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
        moment = epoch + timedelta(days=days, milliseconds=rest_ms)
    except (OverflowError, ValueError):
        raise CellError(f"{number} is shown as a date but is none", hint="Correct it.") from None
    if days == 0 and style == TIME:
        return iso(moment.time().isoformat())
    return moment.date().isoformat() if style == DATE and not rest_ms else iso(moment.isoformat())


def iso(text: str) -> str:
    """Without the zeros at the end of a fraction."""
    return text.rstrip("0") if "." in text else text


def elapsed_text(total_ms: int) -> str:
    """Hours may exceed a day: 36:30:00."""
    seconds, rest_ms = divmod(abs(total_ms), 1000)
    sign = "-" if total_ms < 0 else ""
    text = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return iso(f"{text}.{rest_ms:03d}") if rest_ms else text
