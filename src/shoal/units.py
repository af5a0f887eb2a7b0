"""Durations, sizes and shares as people write them, and back. No clock and no arithmetic beyond that.

Plain numbers are seconds, bytes and fractions. What cannot be read is a ValueError with a sentence.
"""

from __future__ import annotations

import re

DURATION_PATTERN = r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+$|^\s*\d+(\.\d+)?\s*$"
SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([kKmMgGtTpP]?[bB]|[kKmMgGtTpP][iI][bB]?)?\s*$"
SHARE_PATTERN = r"^\s*\d+(\.\d+)?\s*%?\s*$"

_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LONG_UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_BYTES: dict[str, int] = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgtp", start=1)
    for suffix, base in (("b", 1000), ("i", 1024), ("ib", 1024))
}
_NUMBER = r"\d{1,30}(?:\.\d{1,30})?"
_PART = rf"(?a:\s*({_NUMBER})\s*(ms|s|m|h|d|w))"
_AMOUNT = rf"(?a:\s*({_NUMBER})\s*([A-Za-z]*|%)\s*)"

_DURATION_HELP = "a duration such as 90s, 30m, 2h or 1h30m"
_SIZE_HELP = "a size such as 512MiB, 4GiB or 1.5GB"
_SHARE_HELP = "a share such as 1% or 0.01"


def seconds(value: str | int | float) -> float:
    """`"1h30m"` is 5400.0. Units are ms, s, m, h, d and w; several go from large to small, each once."""
    if not isinstance(value, str):
        return _plain(value, _DURATION_HELP)
    amount = re.fullmatch(_AMOUNT, value)
    if amount and not amount[2]:
        return float(amount[1])
    total, position, smallest = 0.0, 0, float("inf")
    text = value.rstrip()
    while match := re.match(_PART, text[position:]):
        unit = _SECONDS[match[2]]
        if unit >= smallest:
            raise ValueError(f"expected {_DURATION_HELP}, larger units first, found {value!r}")
        total, position, smallest = total + float(match[1]) * unit, position + match.end(), unit
    if not position or position != len(text):
        raise ValueError(f"expected {_DURATION_HELP}, found {_short(value)}")
    return total


def size(value: str | int | float) -> int:
    """`"4GiB"` is 4294967296 and `"4GB"` is 4000000000. Upper and lower case mean the same."""
    if not isinstance(value, str):
        amount = _plain(value, _SIZE_HELP)
        return value if isinstance(value, int) else round(amount)
    match = re.fullmatch(_AMOUNT, value)
    unit = match[2].lower() if match else ""
    if match is None or unit not in _BYTES:
        ambiguous = match is not None and len(unit) == 1 and unit in "kmgtp"
        more = f": write {unit.upper()}iB (1024) or {unit.upper()}B (1000)" if ambiguous else ""
        raise ValueError(f"expected {_SIZE_HELP}, found {_short(value)}{more}")
    whole, _, fraction = match[1].partition(".")
    scale = int(10 ** len(fraction))
    return (2 * int(whole + fraction) * _BYTES[unit] + scale) // (2 * scale)


def share(value: str | int | float) -> float:
    """`"1%"` is 0.01; a plain number is the fraction itself, from 0 to 1."""
    if isinstance(value, str):
        match = re.fullmatch(_AMOUNT, value)
        if match is None or match[2] not in ("", "%"):
            raise ValueError(f"expected {_SHARE_HELP}, found {_short(value)}")
        fraction = float(match[1]) / (100 if match[2] else 1)
    else:
        fraction = _plain(value, _SHARE_HELP)
    if fraction > 1:
        raise ValueError(f"expected {_SHARE_HELP}, at most 100%, found {_short(value)}")
    return fraction


def format_seconds(s: float) -> str:
    """For people, with two units at most: `850ms`, `5.2s`, `42s`, `1m 20s`, `2h`, `3d 4h`."""
    if s != s or s in (float("inf"), float("-inf")):
        return "unknown"
    if s < 0:
        return f"-{format_seconds(-s)}"
    if s < 0.9995:
        digits = 0 if s >= 0.00995 else 1 if s >= 0.00095 else 2
        return f"{s * 1000:.{digits}f}ms" if s else "0s"
    if s < 9.95:
        return f"{s:.1f}s"
    for large, small in (("d", "h"), ("h", "m"), ("m", "s")):
        step = int(_SECONDS[small])
        count, rest = divmod(round(s / step), int(_SECONDS[large]) // step)
        if count:
            return f"{count}{large} {rest}{small}" if rest else f"{count}{large}"
    return f"{s:.0f}s"


def unit_of(seconds: float) -> tuple[float, str]:
    """The unit in which so many seconds are a number that can be read: its length, and its name."""
    return next(((length, name) for length, name in _LONG_UNITS if seconds >= 3 * length), _LONG_UNITS[-1])


def format_number(number: float) -> str:
    """For people, with three digits that count: `12.6`, `0.104`, `1,577`, `15,770`."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def format_share(fraction: float) -> str:
    """For people: `1%`, `0.25%`, `33.3%`."""
    return f"{fraction * 100:.3g}%"


def format_size(n: int) -> str:
    """For people, in powers of 1024: `512 B`, `4.0 GiB`."""
    if n < 0:
        return f"-{format_size(-n)}"
    if n < 1024:
        return f"{n} B"
    amount = float(n)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1023.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} PiB"


def _plain(value: int | float, wanted: str) -> float:
    """A number that stands for itself: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected {wanted}, found {_short(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not 0 <= number < float("inf"):
        raise ValueError(f"expected {wanted}, found {_short(value)}")
    return number


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = repr(value)
    except ValueError:  # a whole number with thousands of digits
        return "a number that is too large"
    return text if len(text) <= 60 else f"{text[:57]}..."
