"""Axes of a drawing: from values to positions between 0 and 1, and where marks are worth it. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shoal.units import format_number

MARKS = 5
"""About so many on an axis."""
WIDE, SMALL = 50.0, 0.25
"""Where some values are so many times as large as others, and half of them are below so much of the largest, they are
drawn by their logarithms."""
_LOWEST, _HIGHEST = 1e-250, 1e300
"""What is closer to 0, or further from it, cannot be reckoned with."""


class Mark(NamedTuple):
    at: float
    """From 0 to 1."""
    label: str


class Axis(NamedTuple):
    label: str
    low: float
    high: float
    marks: tuple[Mark, ...]
    is_logarithmic: bool = False

    def at(self, value: float) -> float:
        """Where a value is, from 0 to 1; what lies outside is at the edge."""
        return _position(value, self.low, self.high, self.is_logarithmic)


def linear(label: str, values: Iterable[float], *, from_zero: bool = False, least: float = 0.0) -> Axis:
    """From the lowest to the highest value, or a little beyond, to where the marks are: at least `least` apart."""
    found = _usable(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    if from_zero:
        low, high = min(0.0, low), max(0.0, high)
    most = max(abs(low), abs(high))
    if most < _LOWEST:
        low, high = 0.0, 1.0
    elif high - low <= 1e-12 * most:
        low, high = low - most / 2, high + most / 2
    step = max(least, _step((high - low) / MARKS))
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    count = round((high - low) / step)
    marks = (low + step * number for number in range(count + 1))
    digits = max(0, -math.floor(math.log10(step)))
    return Axis(
        label,
        low,
        high,
        tuple(Mark(_position(each, low, high, False), _told(each, digits)) for each in marks),
    )


def logarithmic(label: str, values: Iterable[float]) -> Axis:
    """For values above 0, with a mark at powers of ten, or between them where there are few."""
    found = [each for each in _usable(values) if each > _LOWEST] or [1.0]
    low, high = 10.0 ** math.floor(_log(min(found)) + 1e-9), 10.0 ** math.ceil(_log(max(found)) - 1e-9)
    if low == high:
        low, high = low / 10, high * 10
    first, last = round(_log(low)), round(_log(high))
    every = max(1, (last - first) // MARKS)
    factors = (1, 2, 5) if last - first == 1 else (1,)
    wanted = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
    return at_values(label, [each for each in wanted if low <= each <= high * 1.001], low, high)


def at_values(label: str, values: Sequence[float], low: float, high: float) -> Axis:
    """A logarithmic axis with marks at just these values."""
    marks = tuple(Mark(_position(each, low, high, True), _told(each, None)) for each in values)
    return Axis(label, low, high, marks, True)


def doubling(label: str, values: Iterable[float]) -> Axis:
    """For whole numbers that are mostly doubled: a mark at each power of two."""
    found = [each for each in _usable(values) if each >= 1] or [1.0]
    first, last = math.floor(math.log2(min(found))), math.ceil(math.log2(max(found)))
    if first == last:
        first, last = max(0, first - 1), last + 1
    every = max(1, -(-(last - first) // 10))
    return at_values(label, [2.0**power for power in range(first, last + 1, every)], 2.0**first, 2.0**last)


def of_numbers(label: str, values: Iterable[float]) -> Axis:
    """By logarithms where values differ by a lot and most of them are small, as learning rates do."""
    found = sorted(_usable(values))
    wide = bool(found) and found[0] > 0 and found[-1] / found[0] >= WIDE
    is_small = wide and found[len(found) // 2] < SMALL * found[-1]
    return logarithmic(label, found) if is_small else linear(label, found)


def of_words(label: str, words: Sequence[str]) -> Axis:
    """Each word in the middle of its own part; the value of a word is its index."""
    count = max(1, len(words))
    marks = tuple(Mark((index + 0.5) / count, word) for index, word in enumerate(words))
    return Axis(label, -0.5, count - 0.5, marks)


def _usable(values: Iterable[float]) -> list[float]:
    return [each for each in values if abs(each) < _HIGHEST]


def _position(value: float, low: float, high: float, is_logarithmic: bool) -> float:
    if is_logarithmic:
        value, low, high = _log(value), _log(low), _log(high)
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _log(value: float) -> float:
    return math.log10(max(value, _LOWEST))


def _step(least: float) -> float:
    """The round number that is next: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _told(value: float, digits: int | None) -> str:
    if digits is None or abs(value) >= 1e6 or digits > 8:
        return format_number(value) if 1 <= abs(value) < 1e6 else f"{value:.4g}"
    return f"{value if value else 0.0:,.{digits}f}"
